// Operators whose results' sizes, or whose results, depend on data: recorded with symbols that a run finds out.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "aot/fake_tensor.h"
#include "aot/op_plan.h"
#include "graph/graph.h"

namespace firesteel {

class Recorder;

// Records the call and puts its results onto the stack. False where the trace takes no such operators, or this one is
// not known.
bool record_data_op(const OpPlan& plan, Recorder& recorder, torch::jit::Stack* stack, size_t base);

// Makes a size that data gives, between two bounds.
using NewSize = std::function<c10::SymInt(int64_t least, std::optional<int64_t> most)>;
// Asks an operator's own function for the shapes of its results, which may call for new sizes. Nothing where it has no
// such function, where this fails, or where it calls for no new size and `only_new` was said.
using ShapeFunction = std::function<std::optional<std::vector<at::Tensor>>(
    const c10::OperatorHandle& op, const std::vector<c10::IValue>& on_meta, const NewSize& new_size, bool only_new)>;
// Set by the language layer, where such functions are written.
FIRESTEEL_API void set_shape_function(ShapeFunction function);

// The same for an operator of the user's, whose own function tells of such sizes, or how its results' sizes follow from
// symbols (user_ops.cpp).
bool record_user_op(const OpPlan& plan, Recorder& recorder, torch::jit::Stack* stack, size_t base, c10::Device device);
// A result of the last node, with a layout that may mention data.
at::Tensor data_result(Recorder& recorder, Node* node, const SymbolicLayout& layout, at::ScalarType dtype,
                       c10::Device device);

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
