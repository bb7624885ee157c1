// Knows wrappers by what their classes define, and has them made anew by the class itself.
#include "capture/wrapper_tensors.h"

#include <fmt/format.h>

#include "capture/callables.h"
#include "capture/modes.h"
#include "capture/overridden_calls.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

constexpr const char* kFlatten = "__tensor_flatten__";
constexpr const char* kUnflatten = "__tensor_unflatten__";
constexpr const char* kDispatch = "__torch_dispatch__";

PyObject* member(PyTypeObject* type, const char* name) { return _PyType_Lookup(type, interned(name).get()); }

// Those of torch.distributed talk to other processes whenever they are asked.
bool is_distributed(PyTypeObject* type) {
  PyRef module = python::attribute(reinterpret_cast<PyObject*>(type), "__module__");
  return module && PyUnicode_Check(module.get()) && python::text_of(module.get()).starts_with("torch.distributed");
}

PyRef rules() { return checked(PyImport_ImportModule("firesteel._wrapper_tensors")); }

// How far `__torch_function__` is switched off, until the end of the block.
class FunctionState {
 public:
  explicit FunctionState(uint8_t state) : before_(torch_function_state()) { set_torch_function_state(state); }
  ~FunctionState() { set_torch_function_state(before_); }
  FunctionState(const FunctionState&) = delete;
  FunctionState& operator=(const FunctionState&) = delete;

 private:
  uint8_t before_;
};
constexpr uint8_t kSubclassesDisabled = 1, kAllDisabled = 2;

// The class's own code, as torch runs it below its functions.
struct BelowFunctions {
  explicit BelowFunctions(Capture& capture) : suspended(capture), state(kAllDisabled) {}
  Suspended suspended;
  FunctionState state;
};

}  // namespace

bool is_wrapper_class(PyTypeObject* type) {
  // A capture's stand-ins must be seen below the class's code.
  if (c10::DispatchKey::Fake > c10::DispatchKey::Python) return false;
  return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && member(type, kFlatten) && member(type, kUnflatten) &&
         member(type, kDispatch) && !is_distributed(type);
}

bool is_wrapper(PyObject* value) {
  if (python::is_exact_tensor(value) || !python::is_tensor(value) || !is_wrapper_class(Py_TYPE(value))) return false;
  const at::Tensor& tensor = python::unpack(value);
  return tensor.key_set().has(c10::DispatchKey::Python) && tensor.layout() == at::kStrided && tensor.has_storage() &&
         !tensor.is_meta() && !has_tangent(tensor);
}

namespace {

bool stands_for_wrapper(PyObject* tensor) {
  if (!is_wrapper(tensor)) return false;
  PyRef flat = checked(PyObject_CallMethod(tensor, kFlatten, nullptr));
  PyRef names = checked(PySequence_GetItem(flat.get(), 0));
  PyRef items = checked(PySequence_Fast(names.get(), "names of parts"));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    PyRef part = checked(PyObject_GetAttr(tensor, PySequence_Fast_GET_ITEM(items.get(), i)));
    const bool stands = python::is_tensor(part.get()) &&
                        (is_traced_tensor(python::unpack(part.get())) || stands_for_wrapper(part.get()));
    if (!stands) return false;
  }
  return true;
}

}  // namespace

bool is_wrapper_stand_in(Capture& capture, PyObject* tensor) {
  if (!is_wrapper(tensor)) return false;
  const BelowFunctions below(capture);
  return stands_for_wrapper(tensor);
}

bool may_be_input(PyObject* value) { return may_stand_in(value) || is_wrapper(value); }

void go_call_by_call(Capture& capture) {
  capture.calls_leaf = true;
  capture.holds_wrappers = true;
  capture.settle_all();
}

PyRef wrapper_stand_in(Capture& capture, PyObject* real, const Source* source) {
  go_call_by_call(capture);
  for (const char* name : {kFlatten, kUnflatten, kDispatch})
    capture.guard_class_attribute(Py_TYPE(real), interned(name).get(), member(Py_TYPE(real), name));
  PyRef facts, made;
  try {
    const BelowFunctions below(capture);
    facts = checked(PyObject_CallMethod(rules().get(), "SameParts", "O", real));
    made = checked(PyObject_CallMethod(rules().get(), "like", "O", real));
  } catch (...) {
    capture.stop_for_own_error();
    PyErr_Clear();
    made = {};
  }
  if (!made || !is_wrapper_stand_in(capture, made.get()))
    capture.stop(BreakReason::TensorKind, fmt::format("a {}", Py_TYPE(real)->tp_name));
  capture.add_guard(
      {GuardKind::Constant, capture.sources.computed(facts.get(), source, nullptr), PyRef::borrow(Py_True)});
  return made;
}

PyRef make_wrapper(Capture& capture, PyObject* type, const CallArgs& args) {
  const std::string name = reinterpret_cast<PyTypeObject*>(type)->tp_name;
  if (!is_wrapper_class(reinterpret_cast<PyTypeObject*>(type))) capture.stop(BreakReason::Creation, name);
  go_call_by_call(capture);
  for (const char* method : {"__new__", "__init__", kDispatch})
    capture.guard_class_attribute(reinterpret_cast<PyTypeObject*>(type), interned(method).get(),
                                  member(reinterpret_cast<PyTypeObject*>(type), method));
  const FunctionState state(std::max(torch_function_state(), kSubclassesDisabled));
  return capture.torch_call(type, name, args.tuple(), args.dict());
}

PyRef wrapper_part(Capture& capture, PyObject* wrapper, PyObject* name) {
  PyObject* dict = guards::instance_dict(wrapper);
  PyObject* value = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
  if (!value) return {};
  if (!python::is_tensor(value)) return capture.real_of(wrapper) ? PyRef() : PyRef::borrow(value);
  // A tensor of the program's that it carries besides, not one of its parts.
  if (!is_traced_tensor(python::unpack(value)) && !is_wrapper_stand_in(capture, value)) return {};
  static PyObject* getattr = checked(PyObject_GetAttrString(PyImport_AddModule("builtins"), "getattr")).release();
  return capture.torch_call(getattr, "getattr", checked(PyTuple_Pack(2, wrapper, name)));
}

}  // namespace firesteel::capture
