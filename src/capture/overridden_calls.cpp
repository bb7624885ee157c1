// Asks `__torch_function__` as torch does, by torch itself.
#include "capture/overridden_calls.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <fmt/format.h>

#include "capture/callables.h"
#include "capture/getters.h"
#include "capture/modes.h"
#include "capture/python_forms.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using at::impl::PythonTorchFunctionTLS;
using at::impl::TorchFunctionDisabledState;
using python::checked;

constexpr int kDeepest = 3;  // torch looks into lists of tensors

PyObject* hook_name() {
  static PyObject* name = interned("__torch_function__").release();
  return name;
}

PyObject* tensor_member(const char* name) {
  PyRef type = checked(PyObject_GetAttrString(checked(PyImport_ImportModule("torch")).get(), "Tensor"));
  return checked(PyObject_GetAttrString(type.get(), name)).release();
}

// What the class is asked with; null where it is not.
PyObject* hook_of(PyTypeObject* type) {
  static PyObject* const disabled =
      checked(PyObject_GetAttrString(checked(PyImport_ImportModule("torch._C")).get(), "_disabled_torch_function_impl"))
          .release();
  PyObject* found = _PyType_Lookup(type, hook_name());
  return found == disabled ? nullptr : found;
}

// Torch's own: it calls the function, and gives results of the class.
bool is_default_hook(PyObject* hook) {
  static PyObject* const own = [] {
    PyRef type = checked(PyObject_GetAttrString(checked(PyImport_ImportModule("torch")).get(), "Tensor"));
    return _PyType_Lookup(reinterpret_cast<PyTypeObject*>(type.get()), hook_name());
  }();
  return hook == own;
}

bool may_ask(PyObject* value) {
  return python::is_tensor(value) ? !python::is_exact_tensor(value) : is_python_class(Py_TYPE(value));
}

bool asks_objects() { return PythonTorchFunctionTLS::get_disabled_state() == TorchFunctionDisabledState::ENABLED; }

bool asks_modes() {
  return PythonTorchFunctionTLS::get_disabled_state() != TorchFunctionDisabledState::ALL_DISABLED &&
         PythonTorchFunctionTLS::stack_len() > 0;
}

// From now on the class is watched for what it answers.
PyObject* watched_hook(Capture& capture, PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  capture.guard_class_attribute(type, hook_name(), _PyType_Lookup(type, hook_name()));
  PyObject* hook = hook_of(type);
  if (hook) find_attribute(capture, reinterpret_cast<PyObject*>(type), hook_name());
  return hook;
}

bool holds_asked(Capture& capture, PyObject* value, int depth = 0) {
  if (may_ask(value)) return watched_hook(capture, value) != nullptr;
  if (depth >= kDeepest || !(PyTuple_Check(value) || PyList_Check(value))) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
    if (holds_asked(capture, PySequence_Fast_GET_ITEM(value, i), depth + 1)) return true;
  }
  return false;
}

// A tensor that no node gives: torch has asked nobody.
bool is_known(const Capture& capture, PyObject* value) {
  if (python::is_tensor(value)) return capture.is_stand_in(value) || capture.source_of(value);
  for (Py_ssize_t i = 0; (PyTuple_Check(value) || PyList_CheckExact(value)) && i < PySequence_Fast_GET_SIZE(value);
       ++i) {
    if (!is_known(capture, PySequence_Fast_GET_ITEM(value, i))) return false;
  }
  return true;
}

PyRef checked_result(Capture& capture, PyRef result, const std::string& name) {
  if (!is_known(capture, result.get())) capture.stop(BreakReason::Argument, name);
  return capture.adopt(std::move(result));
}

PyRef push_mode(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.empty()) return args.call(callable);  // raises
  find_attribute(capture, args[0], hook_name());        // torch calls it by itself
  capture.made(args.values[0]);                         // a piece ends before it came
  return args.call(callable);
}

PyRef pop_mode(Capture& capture, PyObject* callable, CallArgs& args) { return capture.adopt(args.call(callable)); }

PyRef answer(Capture&, PyObject* callable, CallArgs& args) { return args.call(callable); }

}  // namespace

bool may_stand_in(PyObject* tensor) {
  if (python::is_exact_tensor(tensor)) return true;
  if (!python::is_tensor(tensor)) return false;
  static PyObject* const lazy = interned("cls_to_become").release();
  static PyObject* const dispatch = interned("__torch_dispatch__").release();
  static PyObject* const plain = [] {
    PyRef type = checked(PyObject_GetAttrString(checked(PyImport_ImportModule("torch")).get(), "Tensor"));
    return _PyType_Lookup(reinterpret_cast<PyTypeObject*>(type.get()), dispatch);
  }();
  PyTypeObject* type = Py_TYPE(tensor);
  return _PyType_Lookup(type, dispatch) == plain && !_PyType_Lookup(type, lazy) &&
         !python::unpack(tensor).key_set().has(c10::DispatchKey::Python);
}

bool is_asked(PyObject* tensor) { return may_ask(tensor) && hook_of(Py_TYPE(tensor)); }

bool is_overridden(Capture& capture, PyObject* args, PyObject* kwargs) {
  if (capture.concrete) return false;
  if (asks_modes()) return true;
  if (!asks_objects()) return false;
  if (holds_asked(capture, args)) return true;
  Py_ssize_t position = 0;
  PyObject* value = nullptr;
  while (kwargs && PyDict_Next(kwargs, &position, nullptr, &value)) {
    if (holds_asked(capture, value, 1)) return true;
  }
  return false;
}

bool is_attribute_overridden(Capture& capture, PyObject* tensor) {
  if (asks_modes()) return true;
  if (!asks_objects() || python::is_exact_tensor(tensor)) return false;
  PyObject* hook = watched_hook(capture, tensor);
  return hook && !is_default_hook(hook);
}

PyRef call_overridden(Capture& capture, PyObject* callable, const std::string& name, const PyRef& args,
                      const PyRef& kwargs) {
  // Torch hands numbers on to whom it asks, as they are.
  PyRef result = checked(PyObject_Call(callable, args.get(), kwargs.get()));
  if (!python::is_tensor(result.get())) {
    capture.settle_deep(args.get());
    capture.settle_deep(kwargs.get());
  }
  return checked_result(capture, std::move(result), name);
}

PyRef overridden_attribute(Capture& capture, PyObject* tensor, PyObject* name) {
  return checked_result(capture, checked(PyObject_GetAttr(tensor, name)), std::string(python::text_of(name)));
}

void refuse_overridden(Capture& capture, const CallArgs& args, const std::string& name) {
  for (const PyRef& value : args.values) {
    if (asks_modes() || (asks_objects() && holds_asked(capture, value.get())))
      capture.stop(BreakReason::Argument, name);
  }
}

PyObject* subclassing_method() {
  static PyObject* const method = tensor_member("as_subclass");
  return method;
}

PyRef call_subclassing(Capture& capture, PyObject* callable, const CallArgs& args) {
  static PyObject* const maker = tensor_member("_make_subclass");
  const bool makes = callable == maker;
  if ((!makes && callable != subclassing_method()) || args.values.size() != 2 || args.keyword_count()) return {};
  PyRef tensor = capture.adopt(args.values[makes ? 1 : 0]);
  PyObject* type = args[makes ? 0 : 1];
  if (!python::is_tensor(tensor.get()) || !PyType_Check(type)) return {};
  if (makes) {
    static PyObject* const detach = tensor_member("detach");
    const uint8_t before = torch_function_state();
    set_torch_function_state(static_cast<uint8_t>(TorchFunctionDisabledState::ALL_DISABLED));
    tensor = capture.torch_call(detach, "torch.Tensor.detach", checked(PyTuple_Pack(1, tensor.get())));
    set_torch_function_state(before);
  }
  PyRef made;
  {
    Suspended suspended(capture);
    made = checked(PyObject_CallFunctionObjArgs(subclassing_method(), tensor.get(), type, nullptr));
  }
  if (!may_stand_in(made.get()))
    capture.stop(BreakReason::TensorKind, fmt::format("a {}", Py_TYPE(made.get())->tp_name));
  capture.know_as(made, tensor.get());
  return capture.made(std::move(made));
}

namespace {

PyRef mode_at(size_t place) {
  PyRef module = checked(PyImport_ImportModule("torch._C"));
  return checked(PyObject_CallMethod(module.get(), "_get_function_stack_at", "n", static_cast<Py_ssize_t>(place)));
}

}  // namespace

FunctionModesAround::FunctionModesAround(Capture& capture)
    : count_(open_function_modes()), before_(PythonTorchFunctionTLS::get_state()) {
  PyRef module = count_ ? checked(PyImport_ImportModule("torch._C")) : PyRef();
  for (size_t i = 0; i < count_; ++i) {
    PyRef mode = mode_at(i);
    // Its class is guarded by the ambient state; what is read of it, where it is found at every call.
    PyRef place = checked(PyTuple_Pack(1, checked(PyLong_FromSize_t(i)).get()));
    PyObject* caller = caller_of(interned("_get_function_stack_at").get(), place.get());
    const Source* owner = capture.sources.pinned(module.get(), "torch._C");
    capture.admit(mode.get(), capture.sources.computed(caller, owner, nullptr));
    find_attribute(capture, mode.get(), hook_name());
  }
}

FunctionModesAround::~FunctionModesAround() {
  if (open_function_modes() >= count_) return;
  const TorchFunctionDisabledState state = PythonTorchFunctionTLS::get_disabled_state();
  PythonTorchFunctionTLS::set_state(before_);
  PythonTorchFunctionTLS::set_disabled_state(state);
}

WithoutFunctionModes::WithoutFunctionModes() {
  if (!open_function_modes()) return;
  before_ = PythonTorchFunctionTLS::get_state();
  while (open_function_modes()) PythonTorchFunctionTLS::pop_stack();
}

WithoutFunctionModes::~WithoutFunctionModes() {
  if (!before_) return;
  const TorchFunctionDisabledState state = PythonTorchFunctionTLS::get_disabled_state();
  PythonTorchFunctionTLS::set_state(*before_);
  PythonTorchFunctionTLS::set_disabled_state(state);
}

size_t open_function_modes() { return static_cast<size_t>(PythonTorchFunctionTLS::stack_len()); }

void close_function_modes(size_t left) {
  while (open_function_modes() > left) PythonTorchFunctionTLS::pop_stack();
}

PyRef innermost_function_mode() { return mode_at(open_function_modes() - 1); }

const std::vector<ControlRule>& function_mode_rules() {
  static const auto* rows = new std::vector<ControlRule>{
      {"torch._C", "_push_on_torch_function_stack", push_mode}, {"torch._C", "_pop_torch_function_stack", pop_mode},
      {"torch._C", "_get_function_stack_at", pop_mode},         {"torch._C", "_len_torch_function_stack", answer},
      {"torch._C", "_is_torch_function_all_disabled", answer},
  };
  return *rows;
}

}  // namespace firesteel::capture
