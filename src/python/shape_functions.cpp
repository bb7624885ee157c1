// Calls what a program has registered with `register_fake`, and makes the sizes that it asks for.
#include "python/shape_functions.h"

#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_symnode.h>

#include "aot/data_ops.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::python {
namespace {

py::object as_python(const c10::Argument& argument, const c10::IValue& value) {
  if (argument.real_type()->kind() == c10::TypeKind::ScalarTypeType && value.isInt())
    return py::reinterpret_steal<py::object>(wrap_dtype(static_cast<at::ScalarType>(value.toInt())).release());
  return torch::jit::toPyObject(value);
}

std::string registered_name(const c10::OperatorName& name) {
  return name.overload_name.empty() || name.overload_name == "default" ? name.name
                                                                       : name.name + "." + name.overload_name;
}

py::object symbol(const c10::SymInt& size) {
  if (!size.is_symbolic()) return py::int_(size.expect_int());
  return py::module_::import("torch").attr("SymInt")(py::cast(size.toSymNode()));
}

std::optional<std::vector<at::Tensor>> ask(const c10::OperatorHandle& op, const std::vector<c10::IValue>& on_meta,
                                           const NewSize& new_size, bool only_new) {
  const Gil gil;
  const auto& arguments = op.schema().arguments();
  py::list positional;
  py::dict named;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].kwarg_only()) {
      named[arguments[i].name().c_str()] = as_python(arguments[i], on_meta[i]);
    } else {
      positional.append(as_python(arguments[i], on_meta[i]));
    }
  }
  const py::cpp_function make(
      [&](int64_t least, std::optional<int64_t> most) { return symbol(new_size(least, most)); });
  py::object made;
  try {
    made = py::module_::import("firesteel._shape_functions")
               .attr("ask")(registered_name(op.operator_name()), make, only_new, py::tuple(positional), named);
  } catch (py::error_already_set& error) {
    // It is asked again without symbols, and says then what is wrong.
    if (!error.matches(PyExc_Exception)) throw;
    return {};
  }
  if (made.is_none()) return {};
  std::vector<at::Tensor> results;
  for (const py::handle result : made) {
    if (!is_exact_tensor(result.ptr())) return {};
    results.push_back(unpack(result.ptr()));
  }
  return results;
}

}  // namespace

void ask_python_for_shapes() {
  set_shape_function([](const c10::OperatorHandle& op, const std::vector<c10::IValue>& on_meta, const NewSize& new_size,
                        bool only_new) { return ask(op, on_meta, new_size, only_new); });
}

}  // namespace firesteel::python
