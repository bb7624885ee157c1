// exp, log, sin, cos, tanh, erf and their kin on vectors. Accuracy is measured by tests/cpp/native_math_test.cpp; see
// docs/native.md.
#pragma once

#include <span>
#include <string>

#include "codegen/cpu/lanes.h"

namespace firesteel::cpu {

// f32 with FMA: polynomials of our own for those six. f64, huge arguments of sin and cos, and all other functions:
// SLEEF, which lies inside libtorch_cpu. Plain SSE: the C library, a lane at a time.
llvm::Value* emit_math(const Lanes& lanes, LoopOp op, llvm::Value* x);

// The outside functions that emit_math may call: all names, by library.
std::span<const std::string> sleef_names();
std::span<const std::string> libm_names();

}  // namespace firesteel::cpu
