// Calls: each callable is inlined, becomes a node, follows a builtin's rule, or ends the capture.
#include <algorithm>

#include <fmt/format.h>

#include "aot/value_ranges.h"
#include "capture/arrays.h"
#include "capture/as_it_is.h"
#include "capture/autograd_functions.h"
#include "capture/callable_objects.h"
#include "capture/callables.h"
#include "capture/class_facts.h"
#include "capture/compiled_function.h"
#include "capture/cpython/frame_shim.h"
#include "capture/frame_hook.h"
#include "capture/frame_interpreter.h"
#include "capture/iterables.h"
#include "capture/lazy_modules.h"
#include "capture/library_rules.h"
#include "capture/marked_calls.h"
#include "capture/marked_function.h"
#include "capture/marks.h"
#include "capture/optimizers.h"
#include "capture/outside_iterators.h"
#include "capture/overridden_calls.h"
#include "capture/python_forms.h"
#include "capture/region.h"
#include "capture/tensor_history.h"
#include "capture/wrapper_tensors.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

constexpr size_t kDeepest = 180;

PyTypeObject* type_named(const char* module, const char* name) {
  PyRef found = python::checked(PyObject_GetAttrString(python::checked(PyImport_ImportModule(module)).get(), name));
  return reinterpret_cast<PyTypeObject*>(found.release());
}

bool is_enum_class(PyObject* object) {
  static PyTypeObject* meta = type_named("enum", "EnumMeta");
  return PyObject_TypeCheck(object, meta);
}

// What an enum does not know is left to its `_missing_`, which may be the program's own.
bool asks_missing(PyObject* type, const CallArgs& args) {
  PyRef missing = python::attribute(type, "_missing_");
  PyObject* function = missing && PyMethod_Check(missing.get()) ? PyMethod_GET_FUNCTION(missing.get()) : nullptr;
  if (!function || !PyFunction_Check(function)) return false;
  if (is_library(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function)))) return false;
  PyRef known = python::attribute(type, "_value2member_map_");
  const int found = known && !args.values.empty() ? PyDict_Contains(known.get(), args[0]) : 0;
  if (found < 0) PyErr_Clear();
  return found != 1;
}

PyRef inline_function(Capture& capture, PyObject* callable, const CallArgs& args, bool tail) {
  if (capture.depth > kDeepest) capture.stop(BreakReason::Depth, std::to_string(kDeepest));
  auto* function = reinterpret_cast<PyFunctionObject*>(callable);
  if (runs_as_it_is(function)) return run_as_it_is(capture, callable, args, false);
  if (PyRef found = dispatched(capture, callable, args)) return found;
  guard_defaults(capture, function);
  // The hook takes the frame that this makes.
  capture.expected = callable;
  const Tail passed(capture, tail);
  PyRef result = args.call(callable);
  // Where it cannot be made again after a break, the piece ends before this call.
  if (PyGen_CheckExact(result.get())) return capture.made(std::move(result));
  return capture.adopt(std::move(result));
}

void settle_all_of(Capture& capture, const CallArgs& args) {
  for (const PyRef& value : args.values) capture.settle_deep(value.get());
}

PyRef call_with_self(Capture& capture, PyObject* callable, PyObject* self, CallArgs args) {
  args.values.insert(args.values.begin(), PyRef::borrow(self));
  return call(capture, callable, std::move(args));
}

PyRef instantiate(Capture& capture, PyObject* callable, CallArgs args, PyObject* maker);
PyRef call_instance(Capture& capture, PyObject* callable, CallArgs args, bool tail = false);

// What the slots of C classes do, called by their names: `super().__setattr__(…)`, `dict.__getitem__(d, k)`.
PyRef call_slot(Capture& capture, PyObject* callable, PyTypeObject* type, std::string_view name, CallArgs& args) {
  if (args.values.empty()) return args.call(callable);
  PyObject* self = args[0];
  const bool of_object = type == &PyBaseObject_Type;
  if (python::is_tensor(self)) {
    if (name == "__getitem__" && args.values.size() == 2) return get_item(capture, self, args[1]);
    if (name == "__setitem__" && args.values.size() == 3) {
      set_item(capture, self, args[1], args[2]);
      return PyRef::borrow(Py_None);
    }
    capture.stop(BreakReason::CFunction, fmt::format("torch.Tensor.{}", name));
  }
  const bool passes_on =
      name == "__setattr__" || name == "__getattribute__" || name == "__call__" || (name == "__init__" && of_object);
  if (!passes_on) settle_all_of(capture, args);
  const bool plain = is_python_class(Py_TYPE(self)) && !PyType_Check(self);
  if (name == "__setattr__" && args.values.size() == 3 && of_object && plain && PyUnicode_Check(args[1])) {
    generic_store(capture, self, args[1], args[2]);
    return PyRef::borrow(Py_None);
  }
  if (name == "__delattr__" && args.values.size() == 2 && of_object && plain && PyUnicode_Check(args[1])) {
    generic_store(capture, self, args[1], nullptr);
    return PyRef::borrow(Py_None);
  }
  if (name == "__getattribute__" && args.values.size() == 2 && PyUnicode_Check(args[1])) {
    PyRef value = is_python_class(Py_TYPE(self)) ? generic_attribute(capture, self, args[1])
                                                 : find_attribute(capture, self, args[1]);
    if (value) return value;
    PyErr_Format(PyExc_AttributeError, "'%.100s' object has no attribute '%U'", Py_TYPE(self)->tp_name, args[1]);
    python::throw_python_error();
  }
  const bool keeps = of_object || (PyObject_TypeCheck(self, &PyProperty_Type) && !capture.source_of(self));
  if (name == "__init__" && keeps) return args.call(callable);
  if (name == "__call__" && PyType_Check(self)) {
    CallArgs rest = args;
    rest.values.erase(rest.values.begin());
    const bool plain_class = Py_TYPE(self)->tp_call == PyType_Type.tp_call;
    return plain_class ? call(capture, self, std::move(rest)) : instantiate(capture, self, std::move(rest), callable);
  }
  if (name == "__call__" && PyWeakref_CheckRef(self) && args.values.size() == 1) return referent_of(capture, self);
  if ((name == "__eq__" || name == "__ne__" || name == "__hash__") && of_object) return args.call(callable);
  if (PyExceptionInstance_Check(self) && capture.is_made(self)) return capture.adopt(args.call(callable));
  if (PyDict_Check(self) || PyList_Check(self) || PyTuple_Check(self) || PyAnySet_Check(self) ||
      is_guardable_constant(self) || guards::is_plain_deque(self) || fs_view_dict(self) || PyLong_Check(self) ||
      PyFloat_Check(self) || PyUnicode_Check(self))
    return call_container_method(capture, callable, type, name, args);
  if (name == "__next__" && PyIter_Check(self) && capture.is_made(self)) return capture.adopt(args.call(callable));
  if (PyRef twin = name == "__next__" ? OutsideIterators::twin_of(capture, self) : PyRef()) {
    if (PyRef item = next_of(capture, twin.get())) return item;
    PyErr_SetNone(PyExc_StopIteration);
    python::throw_python_error();
  }
  if (name == "__iter__")
    return OutsideIterators::twin_of(capture, self) ? args.values[0] : get_iterator(capture, self);
  if (name == "__get__" && Py_IS_TYPE(self, &PyGetSetDescr_Type) && args.positional() > 1 && python::is_tensor(args[1]))
    return load_attribute(capture, args[1], reinterpret_cast<PyDescrObject*>(self)->d_name);
  if (PyFunction_Check(self) && name == "__get__") {
    // A function bound by hand.
    return capture.adopt(args.call(callable));
  }
  if ((name == "__repr__" || name == "__str__") && !of_object) {
    watch_text(capture, self);
    return args.call(callable);
  }
  capture.stop(BreakReason::CFunction, fmt::format("{}.{}", type->tp_name, name));
}

// What a C class takes for its contents, as C code may go through it.
PyRef as_contents(Capture& capture, PyTypeObject* type, const CallArgs& args, size_t index) {
  PyObject* value = args[index];
  const bool of_dict = PyType_IsSubtype(type, &PyDict_Type);
  static PyTypeObject* defaulting = type_named("collections", "defaultdict");
  const bool kept = (of_dict && index >= args.positional()) || (index == 0 && PyType_IsSubtype(type, defaulting));
  if (kept) return args.values[index];  // the value of a keyword, or what makes the missing ones
  if (of_dict && PyDict_Check(value) && Py_TYPE(value)->tp_iter == PyDict_Type.tp_iter) {
    capture.consult(value);  // CPython copies it, whatever its class says
    return args.values[index];
  }
  if (PyRef items = of_dict ? dict_of_mapping(capture, value) : PyRef()) return items;
  if (PyIter_Check(value) || is_python_class(Py_TYPE(value))) return get_iterator(capture, value);
  return capture.consult_deep(value);
}

// A new object: CPython makes it, and the frames of its `__new__` and `__init__` are inlined. `maker`: type.__call__,
// where the metaclass's own `__call__` has come to it.
PyRef instantiate(Capture& capture, PyObject* callable, CallArgs args, PyObject* maker) {
  auto* type = reinterpret_cast<PyTypeObject*>(callable);
  break_for_disabled_class(capture, type);
  if (is_enum_class(callable)) {
    if (asks_missing(callable, args))
      capture.stop(BreakReason::Value, fmt::format("`{}` asks its `_missing_`", type->tp_name));
    return run_as_it_is(capture, callable, args, true);
  }
  if (!maker) {
    PyRef name = interned("__call__");
    PyObject* own = _PyType_Lookup(Py_TYPE(callable), name.get());
    if (own && PyFunction_Check(own)) return call_instance(capture, callable, std::move(args));
  }
  const bool exception = PyExceptionClass_Check(callable);
  if (!is_python_class(type) && !exception) {
    static const auto* known = new std::unordered_set<std::string_view>{"collections.defaultdict", "collections.deque"};
    const bool plain = known->count(type->tp_name) || PyType_IsSubtype(type, &PyProperty_Type) ||
                       std::string_view(type->tp_name).starts_with("torch.return_types.");
    if (!plain) return make_wrapper(capture, callable, args);
  }
  if ((type->tp_finalize || type->tp_del) && !exception)
    capture.stop(BreakReason::Creation, fmt::format("{} (it has a __del__)", type->tp_name));
  for (const char* name : {"__new__", "__init__", "__call__"}) {
    PyRef key = interned(name);
    PyTypeObject* owner = std::string_view(name) == "__call__" ? Py_TYPE(callable) : type;
    PyObject* found = _PyType_Lookup(owner, key.get());
    capture.guard_class_attribute(owner, key.get(), found);
    if (found && Py_IS_TYPE(found, &PyStaticMethod_Type)) {
      PyRef function = python::checked(PyObject_GetAttrString(found, "__func__"));
      if (PyFunction_Check(function.get()))
        capture.admit(function.get(),
                      capture.sources.pinned(function.get(), fmt::format("{}.{}", type->tp_name, name)));
    }
    if (found && PyFunction_Check(found)) {
      capture.admit(found, capture.sources.pinned(found, fmt::format("{}.{}", type->tp_name, name)));
      guard_defaults(capture, reinterpret_cast<PyFunctionObject*>(found));
    }
  }
  PyObject* own_new = _PyType_Lookup(type, interned("__new__").get());
  const bool python_new = own_new && Py_IS_TYPE(own_new, &PyStaticMethod_Type);  // a named tuple's takes its fields
  if (python_new && !maker && Py_TYPE(callable) == &PyType_Type && type->tp_init == PyBaseObject_Type.tp_init &&
      PyType_IsSubtype(type, &PyTuple_Type)) {
    PyRef function = python::checked(PyObject_GetAttrString(own_new, "__func__"));
    if (PyFunction_Check(function.get())) return call_with_self(capture, function.get(), callable, std::move(args));
  }
  PyRef init_name = interned("__init__");
  PyObject* own_init = _PyType_Lookup(type, init_name.get());
  const bool plain = type->tp_new == PyBaseObject_Type.tp_new && own_init && PyFunction_Check(own_init);
  if (!plain) settle_all_of(capture, args);
  // What a C class takes for its contents is looked at by C code.
  const bool fixed = PyType_IsSubtype(type, &PyTuple_Type) || PyType_IsSubtype(type, &PyFrozenSet_Type);
  const bool filled = PyType_IsSubtype(type, &PyDict_Type) || PyType_IsSubtype(type, &PyList_Type) ||
                      PyType_IsSubtype(type, &PySet_Type);
  if ((fixed && !python_new) || (filled && (!own_init || !PyFunction_Check(own_init)))) {
    for (size_t i = 0; i < args.values.size(); ++i) args.values[i] = as_contents(capture, type, args, i);
  }
  struct Instantiating {
    explicit Instantiating(Capture& capture, PyTypeObject* type) : capture(capture) {
      capture.instantiating.push_back(type);
    }
    ~Instantiating() { capture.instantiating.pop_back(); }
    Capture& capture;
  } instantiating(capture, type);
  if (!maker) return capture.made(args.call(callable));
  args.values.insert(args.values.begin(), PyRef::borrow(callable));
  return capture.made(args.call(maker));
}

PyRef call_instance(Capture& capture, PyObject* callable, CallArgs args, bool tail) {
  break_for_disabled_class(capture, Py_TYPE(callable));
  if (initialize_lazy_module(capture, callable, args)) capture.stop(BreakReason::Value, "a lazy module");
  PyRef name = interned("__call__");
  PyObject* found = _PyType_Lookup(Py_TYPE(callable), name.get());
  if (found && PyFunction_Check(found)) {
    capture.guard_class_attribute(Py_TYPE(callable), name.get(), found);
    capture.admit(found, capture.sources.pinned(found, fmt::format("{}.__call__", Py_TYPE(callable)->tp_name)));
    capture.tail = tail;
    return call_with_self(capture, found, callable, std::move(args));
  }
  if (found && is_python_class(Py_TYPE(callable))) {
    PyRef bound = special_method(capture, callable, "__call__");
    if (bound) return call(capture, bound.get(), std::move(args));
  }
  if (!found && (is_python_class(Py_TYPE(callable)) || !Py_TYPE(callable)->tp_call))
    return args.call(callable);  // raises
  if (is_getter_class(Py_TYPE(callable))) return call_getter(capture, callable, args);
  if (PyWeakref_CheckRefExact(callable) && args.values.empty()) return referent_of(capture, callable);
  capture.stop(BreakReason::CFunction, name_of(callable));
}

PyRef call_builtin_method(Capture& capture, PyObject* callable, CallArgs args) {
  PyObject* self = PyCFunction_GET_SELF(callable);
  const std::string_view name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  if (!self && name == "maketrans") {
    for (PyRef& value : args.values) value = capture.consult_deep(value.get());
    return capture.made(args.call(callable));
  }
  if (!self || PyModule_Check(self)) capture.stop(BreakReason::CFunction, name_of(callable));
  if (PyType_Check(self)) {
    auto* type = reinterpret_cast<PyTypeObject*>(self);
    if (name == "__new__") {
      // object.__new__(cls), tuple.__new__(cls, items)
      if (!args.values.empty() && PyType_Check(args[0]) && type != &PyType_Type) {
        // A named tuple takes over the numbers of a tuple that was made for it, as they are.
        const bool hands_on =
            type == &PyTuple_Type && args.values.size() == 2 && PyTuple_CheckExact(args[1]) && capture.is_made(args[1]);
        for (size_t i = 1; i < args.values.size() && !hands_on; ++i) args.values[i] = capture.consult_deep(args[i]);
        return capture.made(args.call(callable));
      }
    }
    if (name == "fromkeys" || name == "from_iterable" || name == "maketrans" || name == "fromhex" ||
        (name == "from_bytes" && type == &PyLong_Type)) {
      for (PyRef& value : args.values) {
        if (PyIter_Check(value.get())) {
          capture.settle_all();
          continue;
        }
        value = capture.consult_deep(value.get());
      }
      return capture.made(args.call(callable));
    }
    if (name == "mro") return args.call(callable);
    capture.stop(BreakReason::CFunction, fmt::format("{}.{}", type->tp_name, name));
  }
  if (PyGen_CheckExact(self) && capture.is_made(self)) return capture.adopt(args.call(callable));
  if (PyIter_Check(self) && capture.is_made(self)) {
    settle_all_of(capture, args);
    return capture.adopt(args.call(callable));
  }
  PyRef key = python::checked(PyUnicode_InternFromString(std::string(name).c_str()));
  PyObject* method = _PyType_Lookup(Py_TYPE(self), key.get());
  if (method && Py_IS_TYPE(method, &PyMethodDescr_Type)) return call_with_self(capture, method, self, std::move(args));
  if (is_python_class(Py_TYPE(self)) || has_container_methods(Py_TYPE(self))) {
    // Found in a base class: `super().update(…)`.
    args.values.insert(args.values.begin(), PyRef::borrow(self));
    for (PyTypeObject* base = Py_TYPE(self); base; base = base->tp_base) {
      PyObject* found = PyDict_GetItemWithError(fs_type_dict(base), key.get());
      if (found && Py_IS_TYPE(found, &PyMethodDescr_Type)) return call(capture, found, std::move(args));
    }
  }
  if (PyExceptionInstance_Check(self) && capture.is_made(self)) return capture.adopt(args.call(callable));
  capture.stop(BreakReason::CFunction, fmt::format("{}.{}", Py_TYPE(self)->tp_name, name));
}

// Of a `random.Random(seed)` made here: what it gives is the same at every call.
bool is_draw_of_own(const Capture& capture, PyTypeObject* type, std::string_view method, const CallArgs& args) {
  if (!is_random_generator(type) || args.values.empty() || !capture.is_made(args[0])) return false;
  const bool is_being_made = std::find(capture.instantiating.begin(), capture.instantiating.end(), Py_TYPE(args[0])) !=
                             capture.instantiating.end();
  if (capture.is_unknown(args[0]) && !is_being_made) return false;
  // Without a seed, chance decides.
  const bool seeded = args.values.size() == 2 && args[1] != Py_None && is_guardable_constant(args[1]);
  return method == "seed" ? seeded : true;
}

// A function that torch.jit.script has compiled: the Python function it was made from.
PyRef scripted_function(PyObject* callable) {
  if (std::string_view(Py_TYPE(callable)->tp_name) != "torch.jit.ScriptFunction" &&
      std::string_view(Py_TYPE(callable)->tp_name).find("ScriptFunction") == std::string_view::npos)
    return {};
  PyRef inner = python::attribute(callable, "_torchdynamo_inline");
  return inner && PyFunction_Check(inner.get()) ? inner : PyRef();
}

// A call without tensors runs for real; with them the function underneath is inlined.
PyRef call_cached(Capture& capture, PyObject* cached, CallArgs args) {
  const bool tensors =
      std::any_of(args.values.begin(), args.values.end(), [](const PyRef& value) { return holds_tensor(value.get()); });
  if (!tensors) return run_as_it_is(capture, cached, args, true);
  PyRef wrapped = python::checked(PyObject_GetAttrString(cached, "__wrapped__"));
  capture.admit(wrapped.get(), capture.sources.pinned(wrapped.get(), name_of(wrapped.get())));
  return call(capture, wrapped.get(), std::move(args));
}

}  // namespace

bool is_cached_function(PyObject* object) {
  static PyTypeObject* type = type_named("functools", "_lru_cache_wrapper");
  return Py_IS_TYPE(object, type);
}

PyRef call_spread(Capture& capture, PyObject* callable, PyObject* args, PyObject* kwargs) {
  CallArgs given;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i)
    given.values.push_back(PyRef::borrow(PyTuple_GET_ITEM(args, i)));
  if (kwargs && PyDict_GET_SIZE(kwargs) > 0) {
    given.keywords = python::checked(PySequence_Tuple(kwargs));
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(kwargs, &position, &key, &value)) {
      if (!PyUnicode_Check(key)) return python::checked(PyObject_Call(callable, args, kwargs));  // raises
      given.values.push_back(PyRef::borrow(value));
    }
  }
  return call(capture, callable, std::move(given));
}

namespace {

// A function compiled with fullgraph=True stays one piece inside another as well.
class WholeStretch {
 public:
  WholeStretch(Capture& capture, bool whole) : capture_(capture), whole_(whole) { capture_.whole_stretches += whole_; }
  ~WholeStretch() { capture_.whole_stretches -= whole_; }
  WholeStretch(const WholeStretch&) = delete;
  WholeStretch& operator=(const WholeStretch&) = delete;

 private:
  Capture& capture_;
  int whole_;
};

// A class whose __call__ is an object of that class calls itself without end.
struct CallDepth {
  CallDepth() { python::check(Py_EnterRecursiveCall(" while calling a Python object") == 0); }
  ~CallDepth() { Py_LeaveRecursiveCall(); }
};

}  // namespace

PyRef call(Capture& capture, PyObject* callable, CallArgs args) {
  if (capture.concrete) return call_for_real(callable, args);
  CallDepth depth;
  const bool tail = std::exchange(capture.tail, false);
  if (PyObject* followed = array_function(callable, args)) {
    capture.admit(followed, capture.sources.pinned(followed, name_of(callable)));
    return call(capture, followed, std::move(args));
  }
  if (const MarkRow row = mark_of(callable); row.mark != Mark::None)
    return call_as_marked(capture, callable, row, std::move(args));
  if (PyObject* form = form_of_sizes(callable, args)) return call_form(capture, callable, form, std::move(args));
  if (PyObject* form = form_with_tensors(callable, args)) return call_form(capture, callable, form, std::move(args));
  if (PyObject* form = form_with_data(capture, callable, args))
    return call_form(capture, callable, form, std::move(args));
  if (const std::string* name = torch_leaf(callable))
    return capture.torch_call(callable, *name, args.tuple(), args.dict());
  if (PyObject* form = python_form(callable)) return call_form(capture, callable, form, std::move(args));
  if (PyRef made = call_subclassing(capture, callable, args)) return made;
  if (PyObject* form = form_of_whole(capture, callable)) return call_form(capture, callable, form, std::move(args));
  if (PyObject* form = form_of_generator(capture, callable, args))
    return call_form(capture, callable, form, std::move(args));
  if (const ForbiddenLeaf* leaf = forbidden_leaf(callable)) {
    if (PyRef given = args.tuple(); is_overridden(capture, given.get(), nullptr))
      return call_overridden(capture, callable, leaf->name, capture.substitute(given.get()), args.dict());
    if (std::string_view(leaf->name) == "item" && args.values.size() == 1 && python::is_tensor(args[0]) &&
        is_known(python::unpack(args[0])))
      return args.call(callable);
    if (PyRef number = data_number(capture, leaf->name, args)) return number;
    if (PyRef result = change_of_history(capture, callable, args)) return result;
    if (leaf->reason == BreakReason::Autograd)
      capture.stop(leaf->reason, fmt::format("`{}` {}", leaf->name, leaf->what));
    capture.stop(leaf->reason, fmt::format("{}: {}", leaf->name, leaf->what));
  }
  if (BuiltinRule rule = builtin_rule(callable)) {
    if (!passes_numbers_on(rule)) settle_all_of(capture, args);
    return rule(capture, callable, args);
  }
  if (PyRef done = capture.takes_data_numbers ? call_check(capture, callable, args) : PyRef()) return done;
  if (is_autograd_apply(callable) && !args.values.empty() && PyType_Check(args[0]))
    return call_autograd_function(capture, callable, std::move(args));
  if (PyObject* current = PyFunction_Check(callable) ? under_deprecation(callable) : nullptr) {
    capture.admit(current, capture.sources.pinned(current, name_of(current)));
    return call(capture, current, std::move(args));
  }
  if (initialize_optimizer(capture, callable, args)) capture.stop(BreakReason::Value, "the state of an optimizer");
  if (PyFunction_Check(callable)) return inline_function(capture, callable, args, tail);
  if (PyMethod_Check(callable)) {
    capture.tail = tail;
    return call_with_self(capture, PyMethod_GET_FUNCTION(callable), PyMethod_GET_SELF(callable), std::move(args));
  }
  if (marked_callable(callable)) return call_marked_function(capture, callable, std::move(args));
  if (PyObject* function = compiled_callable(callable)) {
    capture.admit(function, capture.sources.pinned(function, name_of(function)));
    const WholeStretch whole(capture, region_of(callable)->is_whole());
    capture.tail = tail && !region_of(callable)->is_whole();
    return call(capture, function, std::move(args));
  }
  if (PyRef method = unbound_method(callable)) {
    return call_with_self(capture, method.get(), PyCFunction_GET_SELF(callable), std::move(args));
  }
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type)) {
    auto* method = reinterpret_cast<PyMethodDescrObject*>(callable);
    PyTypeObject* type = method->d_common.d_type;
    const std::string_view name = python::text_of(method->d_common.d_name);
    if (has_container_methods(type)) return call_container_method(capture, callable, type, name, args);
    if (PyRef found = call_pattern_method(capture, callable, args)) return found;
    if (is_draw_of_own(capture, type, name, args)) {
      settle_all_of(capture, args);
      return args.call(callable);
    }
    if (!args.values.empty() && capture.is_made(args[0]) &&
        (PyIter_Check(args[0]) || PyExceptionInstance_Check(args[0]))) {
      settle_all_of(capture, args);
      return capture.adopt(args.call(callable));
    }
    capture.stop(BreakReason::CFunction, fmt::format("{}.{}", type->tp_name, name));
  }
  if (Py_IS_TYPE(callable, &PyWrapperDescr_Type)) {
    auto* slot = reinterpret_cast<PyDescrObject*>(callable);
    return call_slot(capture, callable, slot->d_type, python::text_of(slot->d_name), args);
  }
  if (Py_IS_TYPE(callable, &_PyMethodWrapper_Type)) {
    PyRef self = python::checked(PyObject_GetAttrString(callable, "__self__"));
    PyRef name = python::checked(PyObject_GetAttrString(callable, "__name__"));
    PyRef owner = python::checked(PyObject_GetAttrString(callable, "__objclass__"));
    PyRef slot = PyRef::borrow(_PyType_Lookup(reinterpret_cast<PyTypeObject*>(owner.get()), name.get()));
    args.values.insert(args.values.begin(), self);
    return call_slot(capture, slot.get(), reinterpret_cast<PyTypeObject*>(owner.get()), python::text_of(name.get()),
                     args);
  }
  if (is_torch_op(callable)) {
    pass_operator(capture, callable, args);
    PyRef text;
    {
      Suspended suspended(capture);
      text = python::checked(PyObject_Str(callable));
    }
    return capture.torch_call(callable, fmt::format("torch.ops.{}", python::text_of(text.get())), args.tuple(),
                              args.dict());
  }
  if (PyCFunction_Check(callable)) return call_builtin_method(capture, callable, std::move(args));
  if (PyRef function = scripted_function(callable)) {
    capture.admit(function.get(), capture.sources.pinned(function.get(), name_of(function.get())));
    return call(capture, function.get(), std::move(args));
  }
  if (is_partial(callable)) return call_partial(capture, callable, std::move(args));
  if (is_cached_function(callable)) return call_cached(capture, callable, std::move(args));
  if (PyType_Check(callable)) return instantiate(capture, callable, std::move(args), nullptr);
  if (PyRef number = call_numpy_function(capture, callable, args)) return number;
  return call_instance(capture, callable, std::move(args), tail);
}

}  // namespace firesteel::capture
