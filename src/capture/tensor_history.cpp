// Leaves made inside, gradients that are set, and why other changes of a tensor's history end the capture.
#include "capture/tensor_history.h"

#include <fmt/format.h>

#include "capture/callables.h"
#include "capture/leaf_hooks.h"
#include "capture/transforms.h"
#include "capture/wrapper_tensors.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

std::string name_of(PyObject* callable) {
  PyRef name = python::attribute(callable, "__name__");
  return std::string(python::text_of(name.get()));
}

// The one argument after `self`, by position or by this name; null where there is none, or more.
PyObject* only_argument(const CallArgs& args, const char* name) {
  if (args.values.size() != 2) return nullptr;
  if (args.keyword_count() && python::text_of(PyTuple_GET_ITEM(args.keywords.get(), 0)) != name) return nullptr;
  return args[1];
}

bool can_be_gradient(const at::Tensor& of, const at::Tensor& gradient) {
  return of.sizes() == gradient.sizes() && of.scalar_type() == gradient.scalar_type() &&
         of.device() == gradient.device() && !of.is_same(gradient);
}

// The gradient of a leaf from outside: set when the graph has run.
void store_gradient(Capture& capture, PyObject* tensor, PyObject* value) {
  PyObject* real = capture.real_of(tensor);
  if (!value || !real || !capture.source_of(real) || !python::unpack(real).is_leaf())
    capture.stop(BreakReason::Autograd, "`.grad` of a tensor that the function computes is set, or deleted");
  PyRef gradient = PyRef::borrow(value);
  if (value != Py_None) {
    if (python::is_tensor(value)) gradient = capture.adopt(gradient);
    if (!python::is_exact_tensor(value) || !can_be_gradient(python::unpack(real), python::unpack(gradient.get())) ||
        capture.real_of(gradient.get()) == real)
      capture.stop(BreakReason::Autograd, "`.grad` is set to what is no plain tensor of the same kind");
  }
  for (auto& [known, written] : capture.written_gradients) {
    if (known.get() == real) {
      written = std::move(gradient);
      return;
    }
  }
  capture.written_gradients.emplace_back(PyRef::borrow(real), std::move(gradient));
}

// What a program keeps on the tensor object itself; on one that the graph computes, it is part of its recipe.
void store_own_attribute(Capture& capture, PyObject* tensor, PyObject* name, PyObject* value) {
  PyObject* real = capture.real_of(tensor);
  const Source* source = real ? capture.source_of(real) : nullptr;
  if (real && !source)
    capture.stop(BreakReason::Write, fmt::format("setting or deleting `.{}` of a tensor", python::text_of(name)));
  if (!real) {
    python::check(PyObject_GenericSetAttr(tensor, name, value) == 0);
    return;
  }
  store_in_dict(capture, real, source, name, value);
}

}  // namespace

PyRef change_of_history(Capture& capture, PyObject* callable, const CallArgs& args) {
  if (args.values.empty() || !python::is_tensor(args[0]) || !capture.is_stand_in(args[0])) return {};
  if (PyRef done = LeafHooks::leave(capture, callable, args)) return done;
  const at::Tensor& tensor = python::unpack(args[0]);
  const std::string name = name_of(callable);
  const bool is_made = !capture.tensor_source(args[0]);
  if (name == "detach_" && args.values.size() == 1 && is_made && !tensor.is_view())
    return capture.torch_call(callable, "torch.Tensor.detach_", args.tuple());
  if (name != "requires_grad_") return {};
  PyObject* wanted = args.values.size() == 1 ? Py_True : only_argument(args, "requires_grad");
  if (!wanted || !PyBool_Check(wanted)) return {};
  if (tensor.requires_grad() == (wanted == Py_True)) return args.values[0];
  if (!is_made) return {};
  // One that lies in the memory of another tensor is made from that when the graph has run, too late for anything to be
  // attached to it. As long as nobody sees it then, it is a leaf like any other.
  const bool is_wrapped = !without_transforms(tensor).is_same(tensor);  // by a transform, which ends before the graph
  const bool is_borrowed = !is_wrapped && (tensor.is_view() || capture.shares_memory(args[0]));
  if (is_borrowed && (wanted != Py_True || !tensor.is_floating_point())) return {};
  if (is_borrowed) capture.borrowed_leaves.emplace_back(args.values[0], capture.clock);
  return capture.torch_call(callable, "torch.Tensor.requires_grad_", args.tuple(), args.dict());
}

void store_tensor_attribute(Capture& capture, PyObject* tensor, PyObject* name, PyObject* value) {
  const std::string_view text = python::text_of(name);
  // `module.to(dtype)` assigns what it got, also where that is the parameter itself.
  if (value == tensor && text == "data") return;
  if (text == "grad") return store_gradient(capture, tensor, value);
  if (text == "requires_grad" && value && PyBool_Check(value)) {
    PyRef method = checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(tensor)), "requires_grad_"));
    CallArgs args;
    args.values = {PyRef::borrow(tensor), PyRef::borrow(value)};
    if (change_of_history(capture, method.get(), args)) return;
  }
  PyObject* found = _PyType_Lookup(Py_TYPE(tensor), name);
  // What a wrapper keeps decides what its class's code does.
  if (capture.holds_wrappers && is_wrapper(tensor) && (!capture.real_of(tensor) || wrapper_part(capture, tensor, name)))
    capture.stop(BreakReason::Write, fmt::format("setting or deleting `.{}` of a {}", text, Py_TYPE(tensor)->tp_name));
  if (!found || !Py_TYPE(found)->tp_descr_set) {
    if (found) capture.guard_class_attribute(Py_TYPE(tensor), name, found);
    return store_own_attribute(capture, tensor, name, value);
  }
  if (Py_IS_TYPE(found, &PyProperty_Type) && !python::is_exact_tensor(tensor))
    return generic_store(capture, tensor, name, value);
  const bool history = text == "data" || text == "requires_grad" || text == "_backward_hooks";
  capture.stop(history ? BreakReason::Autograd : BreakReason::Write,
               history ? fmt::format("`.{}` of a tensor is set", text)
                       : fmt::format("setting or deleting `.{}` of a tensor", text));
}

PyRef make_parameter(Capture& capture, PyObject* callable, CallArgs& args) {
  PyRef data, wanted = PyRef::borrow(Py_True);
  for (size_t i = 0; i < args.values.size(); ++i) {
    const bool by_name = i >= args.positional();
    const std::string_view name =
        by_name ? python::text_of(PyTuple_GET_ITEM(args.keywords.get(), i - args.positional())) : "";
    if (by_name ? name == "data" : i == 0) {
      data = args.values[i];
    } else if (by_name ? name == "requires_grad" : i == 1) {
      wanted = args.values[i];
    } else {
      return args.call(callable);  // raises
    }
  }
  if (!data || !python::is_exact_tensor(data.get()) || !PyBool_Check(wanted.get()))
    capture.stop(BreakReason::Creation, "Parameter, of what is no plain tensor,");
  data = capture.adopt(data);
  // Made from memory that is there already, it could only be made when the graph has run.
  if (capture.shares_memory(data.get()))
    capture.stop(BreakReason::Creation, "Parameter, over the memory of a tensor from outside,");
  return capture.torch_call(callable, "torch.nn.Parameter", checked(PyTuple_Pack(2, data.get(), wanted.get())));
}

PyRef leave_hook(Capture& capture, PyObject* callable, CallArgs&) {
  capture.stop(BreakReason::Write, fmt::format("`{}`", name_of(callable)));
}

}  // namespace firesteel::capture
