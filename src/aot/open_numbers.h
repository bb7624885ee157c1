// Numbers of a traced function that are no sizes: floats that change from call to call, and what is asked of them.
//
// The language layer keeps them and computes them again before each run of the graph, which takes those that operators
// meet as inputs. Here one is a name and its value in the traced call.
#pragma once

#include <variant>

#include <ATen/core/Tensor.h>

#include "graph/dim.h"
#include "shapes/relation.h"

namespace firesteel {

struct OpenNumber {
  double hint = 0;               // in the traced call; of a truth 0 or 1
  const void* source = nullptr;  // what the language layer knows it by; null for a constant
  bool is_truth = false;
};

class OpenNumbers {
 public:
  using Operand = std::variant<OpenNumber, Dim, Relation>;
  virtual ~OpenNumbers() = default;
  // A float that Python's function of that name gives (`add`, `float`, …); `second` may be null.
  virtual OpenNumber compute(const char* function, const Operand& first, const Operand* second) = 0;
  // A comparison: its answer is not looked at.
  virtual OpenNumber compare(const char* function, const Operand& first, const Operand& second) = 0;
  virtual OpenNumber negate(const OpenNumber& truth) = 0;
  // One of two floats, by a truth.
  virtual OpenNumber choose(const Operand& truth, const Operand& then_value, const Operand& else_value) = 0;
  // From now on the graph is one for this value, or this answer.
  virtual double settle(const OpenNumber& number) = 0;
  virtual bool decide(const OpenNumber& truth) = 0;
  // What stands for it among the operands of an operator: a number, or a bool, that is an input of the graph.
  virtual at::Tensor operand(const Operand& number) = 0;
};

}  // namespace firesteel
