// Which implementations of attention torch may choose from, and which first.
#pragma once

#include <array>

#include <ATen/SDPBackend.h>

namespace firesteel::guards {

struct AttentionChoice {
  std::array<bool, at::num_sdp_backends> enabled{};
  std::array<at::SDPBackend, at::num_sdp_backends> order{};

  static AttentionChoice current();
  void apply() const;
  friend bool operator==(const AttentionChoice&, const AttentionChoice&) = default;
};

}  // namespace firesteel::guards
