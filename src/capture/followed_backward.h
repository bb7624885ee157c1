// The backward of a torch.autograd.Function in a trace: its Python is followed, so that guards watch what it reads.
#pragma once

#include "capture/capture.h"
#include "python/python_backward.h"

namespace firesteel::capture {

class FollowedBackward final : public python::BackwardFollower {
 public:
  explicit FollowedBackward(Capture& capture) : capture_(capture) {}

  void meet() override { capture_.close_numbers(); }
  size_t writes() const override { return capture_.journal.writes(); }
  void give_up_for_writes(const std::string& name) override;
  bool forgive() override;
  void insist() override { capture_.broken = forgiven_; }

  // Runs the engine's work with the capture at hand.
  void run(const std::function<void()>& backward);

 private:
  Capture& capture_;
  std::optional<Break> forgiven_;
};

}  // namespace firesteel::capture
