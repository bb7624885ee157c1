// Reading what existed before the call: every value is guarded where it was found, real tensors become stand-ins.
#include <algorithm>

#include <fmt/format.h>

#include "aot/trace.h"
#include "capture/arrays.h"
#include "capture/callables.h"
#include "capture/capture.h"
#include "capture/cpython/frame_shim.h"
#include "capture/inner_values.h"
#include "capture/overridden_calls.h"
#include "capture/transforms.h"
#include "capture/wanted_inputs.h"
#include "capture/wrapper_tensors.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

// typing.Union and its like: one object each, for ever.
bool is_special_form(PyObject* object) {
  static PyObject* type =
      python::checked(PyObject_GetAttrString(python::checked(PyImport_ImportModule("typing")).get(), "_SpecialForm"))
          .release();
  return Py_IS_TYPE(object, reinterpret_cast<PyTypeObject*>(type));
}

bool is_fixed_object(PyObject* object) {
  return PyType_Check(object) || PyModule_Check(object) || PyCFunction_Check(object) || PyCode_Check(object) ||
         Py_IS_TYPE(object, &PyMethodDescr_Type) || Py_IS_TYPE(object, &PyWrapperDescr_Type) ||
         Py_IS_TYPE(object, &PyClassMethodDescr_Type) || Py_IS_TYPE(object, &PyProperty_Type) ||
         is_own_callable(object);
}

// Of a set, or a dict's keys: what is compared by C code alone. A weak reference to such an object stays the same one.
bool is_known_by_identity(PyObject* object) {
  if (is_fixed_object(object) || PyFunction_Check(object) || Py_IS_TYPE(object, &_PyMethodWrapper_Type) ||
      Py_IS_TYPE(object, &PyGetSetDescr_Type) || python::is_tensor(object))
    return true;
  PyTypeObject* type = Py_TYPE(PyWeakref_CheckRefExact(object) ? PyWeakref_GET_OBJECT(object) : object);
  return type->tp_hash == PyBaseObject_Type.tp_hash && type->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

bool is_known_key(PyObject* key) {
  if (is_guardable_constant(key) || is_known_by_identity(key) || is_special_form(key) || is_torch_op(key)) return true;
  if (!PyTuple_CheckExact(key)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
    PyObject* item = PyTuple_GET_ITEM(key, i);
    const bool plain = is_guardable_constant(item) || is_fixed_object(item) || PyTuple_CheckExact(item);
    if (!plain || !is_known_key(item)) return false;
  }
  return true;
}

bool is_bound_builtin(PyObject* object) {
  if (!PyCFunction_Check(object)) return false;
  PyObject* self = PyCFunction_GET_SELF(object);
  return self && !PyModule_Check(self) && !PyType_Check(self);
}

// A number as Python counts it, no Python code asked.
int64_t own_length(PyObject* container) {
  return PyAnySet_Check(container)  ? PySet_GET_SIZE(container)
         : PyDict_Check(container)  ? PyDict_GET_SIZE(container)
         : PyList_Check(container)  ? PyList_GET_SIZE(container)
         : PyTuple_Check(container) ? PyTuple_GET_SIZE(container)
                                    : PyObject_Length(container);
}

const c10::TensorImpl* impl_of(PyObject* tensor) { return python::unpack(tensor).unsafeGetTensorImpl(); }

Type tensor_type(const at::Tensor& tensor) {
  Type type = Type::tensor(tensor.scalar_type(), tensor.device(), {tensor.sizes().begin(), tensor.sizes().end()},
                           {tensor.strides().begin(), tensor.strides().end()});
  type.requires_grad = tensor.requires_grad();
  return type;
}

std::string input_name(const Source* source) {
  std::string name = source->str();
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') c = '_';
  }
  if (!name.empty() && std::isdigit(static_cast<unsigned char>(name[0]))) name = "v" + name;
  return name;
}

}  // namespace

bool is_guardable_constant(PyObject* object) {
  if (PyLong_CheckExact(object) || PyBool_Check(object) || PyFloat_CheckExact(object) || PyUnicode_CheckExact(object) ||
      PyComplex_CheckExact(object) || PyBytes_CheckExact(object)) {
    return true;
  }
  if (PySlice_Check(object)) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    return is_guardable_constant(slice->start) && is_guardable_constant(slice->stop) &&
           is_guardable_constant(slice->step);
  }
  // Everything else that counts as a constant and is no subclass of these: None, dtypes, sizes, enum members, ranges.
  if (PyLong_Check(object) || PyFloat_Check(object) || PyUnicode_Check(object) || PyComplex_Check(object) ||
      PyBytes_Check(object) || PyAnySet_Check(object)) {
    return false;
  }
  return python::is_plain_constant(object);
}

bool is_module_namespace(PyObject* globals) {
  PyObject* name = PyDict_GetItemString(globals, "__name__");
  PyObject* module = name && PyUnicode_CheckExact(name) ? PyDict_GetItem(PyImport_GetModuleDict(), name) : nullptr;
  return module && PyModule_Check(module) && PyModule_GetDict(module) == globals;
}

bool is_sequence(PyObject* object) { return PyList_CheckExact(object) || PyTuple_CheckExact(object); }

bool is_mapping(PyObject* object) {
  return PyDict_CheckExact(object) ||
         (PyDict_Check(object) && std::string_view(Py_TYPE(object)->tp_name) == "collections.OrderedDict");
}

const Source* Capture::source_of(PyObject* object) const {
  auto found = provenance_.find(object);
  return found == provenance_.end() ? nullptr : found->second;
}

const Source* Capture::need_source(PyObject* object) {
  const Source* source = source_of(object);
  if (!source) stop(BreakReason::Origin, fmt::format("a {}", Py_TYPE(object)->tp_name));
  return source;
}

void Capture::remember(PyObject* object, const Source* source) {
  auto [found, is_new] = provenance_.try_emplace(object, source);
  if (is_new) {
    held_.push_back(PyRef::borrow(object));
  } else if (found->second != source && PyFunction_Check(object)) {
    // By its code it may be the same as others: its places count only where it is told apart from them.
    other_places_[object].push_back(source);
    const auto told = told_apart_.find(&PyFunction_Type);
    const bool is_told =
        told != told_apart_.end() && std::find(told->second.begin(), told->second.end(), object) != told->second.end();
    if (is_told) add_guard({GuardKind::Identity, source, PyRef::borrow(object)});
  } else if (found->second != source && !is_fixed_object(object)) {
    // Guards hang on the first way only: the second must lead to the same object.
    Guard guard{GuardKind::Same, source};
    guard.other = found->second;
    add_guard(std::move(guard));
  }
}

PyRef Capture::admit(PyObject* value, const Source* source) {
  if (concrete) return PyRef::borrow(value);
  if (python::is_tensor(value)) return tensor_at(value, source);
  if (is_guardable_constant(value)) {
    if (PyRef open = with_changing_parts(value, source)) return open;
    add_guard({GuardKind::Constant, source, PyRef::borrow(value)});
    return PyRef::borrow(value);
  }
  if (PyRef array = array_at(*this, value, source)) return array;
  if (Py_IS_TYPE(value, &_PyMethodWrapper_Type)) stop(BreakReason::Origin, "a bound method of a C class");
  if (is_bound_builtin(value)) {
    // `items.append`: made anew at each access.
    add_guard({GuardKind::Builtin, source, PyRef::borrow(value)});
    admit(PyCFunction_GET_SELF(value), sources.step(source, AccessKind::MethodSelf));
  } else if (is_fixed_object(value) || is_array_dtype(value)) {
    add_guard({GuardKind::Identity, source, PyRef::borrow(value)});
  } else if (PyFunction_Check(value)) {
    guard_function(value, source);
  } else {
    add_guard({GuardKind::Type, source, PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(value)))});
  }
  guard_inner_value(value, source);
  if (is_array_number(value)) guard_array_number(*this, value, source);
  remember(value, source);
  if (PyObject* dict = fs_view_dict(value)) admit(dict, sources.step(source, AccessKind::ViewedDict));
  if (PyMethod_Check(value)) {
    admit(PyMethod_GET_FUNCTION(value), sources.step(source, AccessKind::MethodFunction));
    admit(PyMethod_GET_SELF(value), sources.step(source, AccessKind::MethodSelf));
  }
  return PyRef::borrow(value);
}

// A module's variables are there for good. Those of code that was exec'd go with it: they are reached through the
// function, so that nobody has to keep them.
void Capture::guard_function(PyObject* value, const Source* source) {
  auto* function = reinterpret_cast<PyFunctionObject*>(value);
  PyObject* globals = is_module_namespace(function->func_globals) ? function->func_globals : Py_None;
  add_guard({GuardKind::Code, source, python::checked(PyTuple_Pack(2, function->func_code, globals))});
  if (globals == Py_None) remember(function->func_globals, sources.step(source, AccessKind::FunctionGlobals));
}

PyRef Capture::adopt(PyRef value) {
  if (concrete) return value;
  PyObject* object = value.get();
  if (python::is_tensor(object)) {
    if (is_stand_in(object)) return value;
    return tensor_at(object, need_source(object));
  }
  if (numbers_.count(object)) return value;
  if (const Source* source = source_of(object)) return admit(object, source);
  return value;
}

void Capture::add_input(PyObject* real, PyRef fake, const Source* source, InputRole role) {
  Value* value = graph.add_input(tensor_type(python::unpack(real)), role, input_name(source));
  if (role == InputRole::Captured) graph.inputs.back().captured = python::unpack(real);
  values_[impl_of(fake.get())] = value;
  stand_in_sources_[impl_of(fake.get())] = source;
  input_sources.push_back(source);
  Guard guard{GuardKind::Tensor, source, PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(real)))};
  auto facts = std::make_shared<guards::TensorFacts>(python::unpack(real));
  facts->marks = guards::SizeMarkFacts(real);
  guard.tensor = std::move(facts);
  add_guard(std::move(guard));
  held_.push_back(PyRef::borrow(real));
  fakes_.emplace(real, std::move(fake));
}

void Capture::add_argument(PyObject* tensor, const Source* source) {
  arguments.push_back(PyRef::borrow(tensor));
  input_sources.push_back(source);
}

void Capture::enter(const std::vector<at::Tensor>& stand_ins) {
  const std::vector<const Source*> given = std::exchange(input_sources, {});
  for (size_t i = 0; i < stand_ins.size(); ++i) {
    PyObject* real = arguments[i].get();
    auto [found, is_new] = provenance_.try_emplace(real, given[i]);
    if (is_new) {
      PyRef fake = is_wrapper(real) ? wrapper_stand_in(*this, real, given[i])
                                    : python::wrap_as(stand_ins[i], Py_TYPE(real), real);
      add_input(real, std::move(fake), given[i], InputRole::Argument);
      continue;
    }
    // The same tensor again keeps its place among the inputs.
    graph.add_input(tensor_type(python::unpack(real)), InputRole::Argument, input_name(given[i]));
    input_sources.push_back(given[i]);
    Guard guard{GuardKind::Same, given[i]};
    guard.other = found->second;
    add_guard(std::move(guard));
  }
  constexpr size_t kFew = 8;  // for more the executable's own check has to do
  for (size_t i = 0; i < arguments.size() && arguments.size() <= kFew; ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (arguments[i].get() == arguments[k].get()) continue;
      Guard guard{GuardKind::Distinct, given[i]};
      guard.other = given[k];
      add_guard(std::move(guard));
    }
  }
}

PyRef Capture::tensor_at(PyObject* real, const Source* source) {
  if (is_stand_in(real)) return PyRef::borrow(real);
  if (!may_be_input(real)) stop(BreakReason::TensorKind, fmt::format("a {}", Py_TYPE(real)->tp_name));
  const bool wraps = is_wrapper(real);
  if (!wraps && !guards::is_plain_real(python::unpack(real))) {
    stop(BreakReason::TensorKind, is_traced_tensor(python::unpack(real)) ? "a tensor of another trace"
                                  : has_tangent(python::unpack(real))
                                      ? "a tensor with a tangent of forward-mode differentiation"
                                      : "a tensor that is not dense");
  }
  remember(real, source);
  auto found = fakes_.find(real);
  if (found != fakes_.end()) {
    loads.try_emplace(values_.at(impl_of(found->second.get())), graph.nodes.size());
    return found->second;
  }
  WantedInputs::add_tensor(source);
  // The graph holds this very tensor, so the way to it must keep leading here.
  add_guard({GuardKind::Identity, source, PyRef::borrow(real)});
  if (!wraps) keep_from_arrays(*this, real, source);
  PyRef fake = wraps ? wrapper_stand_in(*this, real, source)
                     : python::wrap_as(stand_in_for(python::unpack(real)), Py_TYPE(real), real);
  add_input(real, fake, source, InputRole::Captured);
  loads.emplace(values_.at(impl_of(fake.get())), graph.nodes.size());
  return fake;
}

void Capture::guard_length(PyObject* given) {
  const Source* source = source_of(given);
  PyObject* container = journal.original(given);
  if (!source) return;
  add_guard({GuardKind::Type, source, PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(given)))});
  Guard guard{GuardKind::Length, source};
  guard.number = own_length(container);
  python::check(guard.number >= 0);
  add_guard(std::move(guard));
}

// How many items a deque holds at most.
void Capture::guard_limit(PyObject* deque, const Source* source) {
  static PyObject* limit = [] {
    PyRef module = python::checked(PyImport_ImportModule("operator"));
    return python::checked(PyObject_CallMethod(module.get(), "attrgetter", "s", "maxlen")).release();
  }();
  add_guard({GuardKind::Type, source, PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(deque)))});
  add_guard({GuardKind::Constant, sources.computed(limit, source, nullptr),
             python::checked(PyObject_CallOneArg(limit, deque))});
}

// A key of a dict or an item of a set, which are guarded to be these very objects.
void Capture::know_by_itself(PyObject* key, const Source* container) {
  if (is_guardable_constant(key) || is_fixed_object(key) || PyTuple_CheckExact(key)) return;
  remember(key, sources.pinned(key, fmt::format("a key of {}", container->str())));
  tell_apart(key);
}

void Capture::consult(PyObject* given, bool finds_tensors) {
  const Source* source = source_of(given);
  if (!source || concrete) return;
  auto refuse_tensors = [&] {
    tensor_keyed_.insert(given);
    if (!finds_tensors)
      stop(BreakReason::Value, fmt::format("a {} from outside with tensors as keys is read", Py_TYPE(given)->tp_name));
  };
  if (consulted_.count(given)) return tensor_keyed_.count(given) ? refuse_tensors() : void();
  PyObject* container = journal.original(given);
  consulted_.insert(given);
  auto child = [&](PyObject* value, const Source* at) {
    if (is_guardable_constant(value)) {
      add_guard({GuardKind::Constant, at, PyRef::borrow(value)});
    } else if (!(python::is_tensor(value) && is_stand_in(value))) {
      remember(value, at);
      if (PyFunction_Check(value) || PyMethod_Check(value) || is_fixed_object(value) || plain_form(value))
        admit(value, at);
    }
  };
  if (PyAnySet_Check(container)) {
    add_guard({GuardKind::Type, source, PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(given)))});
    PyRef items = python::checked(PyTuple_New(PySet_GET_SIZE(container)));
    Py_ssize_t position = 0, i = 0;
    PyObject* item = nullptr;
    Py_hash_t hash = 0;
    while (_PySet_NextEntry(container, &position, &item, &hash)) {
      if (!is_known_key(item))
        stop(BreakReason::Value, fmt::format("a set that holds a {} is read", Py_TYPE(item)->tp_name));
      if (python::is_tensor(item)) refuse_tensors();
      know_by_itself(item, source);
      PyTuple_SET_ITEM(items.get(), i++, Py_NewRef(item));
    }
    add_guard({GuardKind::Items, source, items});
    return;
  }
  PyRef items = guards::is_plain_deque(container) ? python::checked(PySequence_List(container)) : PyRef();
  if (items) container = items.get();
  if (guards::is_plain_deque(given)) guard_limit(given, source);
  if (PyList_Check(container) || PyTuple_Check(container)) {
    guard_length(given);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(container); ++i) {
      child(PySequence_Fast_GET_ITEM(container, i), sources.item(source, i));
    }
    return;
  }
  if (!PyDict_Check(container)) return;
  PyRef keys = python::checked(PySequence_Tuple(container));
  add_guard({GuardKind::Type, source, PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(given)))});
  add_guard({GuardKind::Keys, source, keys});
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(container, &position, &key, &value)) {
    if (!is_known_key(key))
      stop(BreakReason::Value, fmt::format("a dict with a {} as a key is read", Py_TYPE(key)->tp_name));
    if (python::is_tensor(key)) refuse_tensors();
    know_by_itself(key, source);
    child(value, python::is_tensor(key) ? sources.tensor_item(source, key) : sources.item(source, key));
  }
}

bool Capture::is_stand_in(PyObject* tensor) const {
  const at::Tensor& asked = python::unpack(tensor);
  if (!unrecorded && values_.count(impl_of(tensor)) == 0) return false;
  return is_traced_tensor(without_transforms(asked)) || (holds_wrappers && is_wrapper(tensor));
}

bool Capture::shares_memory(PyObject* tensor) const {
  const at::Tensor asked = without_transforms(python::unpack(tensor));
  return std::any_of(fakes_.begin(), fakes_.end(),
                     [&](const auto& known) { return python::unpack(known.second.get()).is_alias_of(asked); });
}

PyObject* Capture::real_of(PyObject* tensor) const {
  for (const auto& [real, fake] : fakes_) {
    if (real == tensor || impl_of(fake.get()) == impl_of(tensor)) return real;
  }
  return nullptr;
}

const Source* Capture::tensor_source(PyObject* tensor) const {
  auto found = stand_in_sources_.find(impl_of(tensor));
  return found != stand_in_sources_.end() ? found->second : source_of(tensor);
}

void Capture::know_as(const PyRef& tensor, PyObject* other) {
  values_[impl_of(tensor.get())] = value_of(other);
  held_.push_back(tensor);
}

Value* Capture::value_of(PyObject* tensor) {
  auto found = values_.find(impl_of(tensor));
  if (found == values_.end()) stop(BreakReason::Origin, "a tensor");
  return found->second;
}

}  // namespace firesteel::capture
