// The marks that lie on a tensor's sizes, as compiled code takes them for granted.
#pragma once

#include <array>
#include <cstdint>

#include "python/py_ref.h"

namespace firesteel::guards {

// Code compiled for a tensor serves others whose marks are among its own: a new mark is a wish for other code, a
// missing one is none.
class SizeMarkFacts {
 public:
  SizeMarkFacts() = default;
  explicit SizeMarkFacts(PyObject* tensor);
  bool allow(PyObject* tensor) const;

 private:
  static constexpr size_t kKinds = 5;
  using Dims = std::array<uint64_t, kKinds>;
  static Dims dims_of(PyObject* dict);

  Dims dims_{};
  mutable uint64_t allowed_version_ = 0;  // of a dict of a tensor's attributes, without any mark
};

}  // namespace firesteel::guards
