// Operators whose results' sizes, or whose results, depend on data: recorded with symbols that a run finds out.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

#include "aot/op_plan.h"
#include "graph/graph.h"

namespace firesteel {

class Recorder;

// Records the call and puts its results onto the stack. False where the trace takes no such operators, or this one is
// not known.
bool record_data_op(const OpPlan& plan, Recorder& recorder, torch::jit::Stack* stack, size_t base);

// The number that a tensor of the trace holds, a float or an int, as a value of the graph of its own.
// `as_number`: it has no say in what type comes out of an operator, like a number of Python's.
FIRESTEEL_API at::Tensor traced_number(const at::Tensor& tensor, bool as_number);
// The same for an expression of sizes, as an int or a float.
FIRESTEEL_API at::Tensor traced_number(const Dim& dim, at::ScalarType dtype);

// The number, which a run finds not to be zero.
FIRESTEEL_API at::Tensor traced_divisor(const at::Tensor& number);

// Thrown by a run that finds what does not hold for its graph, or that fails. Nothing of the program has changed then.
class FIRESTEEL_API DataMismatch : public std::runtime_error {
 public:
  explicit DataMismatch(const std::string& what, std::exception_ptr cause = nullptr)
      : std::runtime_error(what), cause_(std::move(cause)) {}
  // The error for the user, where the program cannot be run as it is.
  [[noreturn]] void raise() const;

 private:
  std::exception_ptr cause_;  // of a run that fails
};

}  // namespace firesteel
