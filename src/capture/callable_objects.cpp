// Calls of small C objects of the standard library that stand for something else: partials, operator's getters, weak
// references, the dispatch of functools.singledispatch.
#include "capture/callable_objects.h"

#include <fmt/format.h>

#include "capture/callables.h"
#include "capture/frame_interpreter.h"
#include "capture/iterables.h"
#include "capture/oracle.h"
#include "capture/tensor_keys.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

PyTypeObject* type_in(const char* module_name, const char* name) {
  PyRef module = checked(PyImport_ImportModule(module_name));
  return reinterpret_cast<PyTypeObject*>(checked(PyObject_GetAttrString(module.get(), name)).release());
}

struct Getters {
  PyTypeObject* item = type_in("operator", "itemgetter");
  PyTypeObject* attribute = type_in("operator", "attrgetter");
  PyTypeObject* method = type_in("operator", "methodcaller");
  PyTypeObject* partial = type_in("functools", "partial");
};
const Getters& getters() {
  static const Getters types;
  return types;
}

// What a getter was made with. It never changes: one from outside is this very object.
struct GetterParts {
  std::vector<PyRef> args;
  PyRef keywords;  // a dict, or nothing
};

GetterParts parts_of(Capture& capture, PyObject* getter) {
  GetterParts parts;
  PyRef reduced;
  {
    Suspended suspended(capture);
    reduced = checked(PyObject_CallMethod(getter, "__reduce__", nullptr));
  }
  PyObject* maker = PyTuple_GET_ITEM(reduced.get(), 0);
  if (!PyType_Check(maker)) {  // a method's keywords come in a partial, with its name
    parts.keywords = checked(PyObject_GetAttrString(maker, "keywords"));
    PyRef name = checked(PyObject_GetAttrString(maker, "args"));
    parts.args.push_back(PyRef::borrow(PyTuple_GET_ITEM(name.get(), 0)));
  }
  PyObject* given = PyTuple_GET_ITEM(reduced.get(), 1);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); ++i)
    parts.args.push_back(PyRef::borrow(PyTuple_GET_ITEM(given, i)));
  const Source* source = capture.source_of(getter);
  if (!source) return parts;
  capture.add_guard({GuardKind::Identity, source, PyRef::borrow(getter)});
  auto refuse_unless_constant = [&](PyObject* value) {
    if (!is_guardable_constant(value))
      capture.stop(BreakReason::Origin, fmt::format("what a {} holds", Py_TYPE(getter)->tp_name));
  };
  for (const PyRef& value : parts.args) refuse_unless_constant(value.get());
  Py_ssize_t position = 0;
  PyObject* value = nullptr;
  while (parts.keywords && PyDict_Next(parts.keywords.get(), &position, nullptr, &value)) refuse_unless_constant(value);
  return parts;
}

PyRef interned(const PyRef& name) {
  PyObject* text = PyRef(name).release();
  PyUnicode_InternInPlace(&text);
  return PyRef::steal(text);
}

PyRef attribute_along(Capture& capture, PyObject* object, PyObject* dotted) {
  PyRef found = PyRef::borrow(object);
  PyRef names = checked(PyUnicode_Split(dotted, capture::interned(".").get(), -1));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i) {
    PyRef name = interned(PyRef::borrow(PyList_GET_ITEM(names.get(), i)));
    found = load_attribute(capture, found.get(), name.get());
  }
  return found;
}

// One key gives a value, several a tuple.
template <class F>
PyRef one_or_tuple(Capture& capture, const std::vector<PyRef>& keys, F&& get) {
  if (keys.size() == 1) return get(keys[0].get());
  PyRef tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(keys.size())));
  for (size_t i = 0; i < keys.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), get(keys[i].get()).release());
  return capture.made(std::move(tuple));
}

PyRef call_method(Capture& capture, PyObject* object, const GetterParts& parts) {
  CallArgs args;
  args.values.assign(parts.args.begin() + 1, parts.args.end());
  if (parts.keywords && PyDict_GET_SIZE(parts.keywords.get()) > 0) {
    args.keywords = checked(PySequence_Tuple(parts.keywords.get()));
    Py_ssize_t position = 0;
    PyObject* value = nullptr;
    while (PyDict_Next(parts.keywords.get(), &position, nullptr, &value)) args.values.push_back(PyRef::borrow(value));
  }
  for (PyRef& value : args.values) value = capture.adopt(std::move(value));
  PyRef name = interned(parts.args[0]);
  PyRef method = load_attribute(capture, object, name.get());
  return call(capture, method.get(), std::move(args));
}

PyCodeObject* code_of_dispatch() {
  static PyCodeObject* code = [] {
    PyRef module = checked(PyImport_ImportModule("functools"));
    PyRef any = checked(PyObject_GetAttrString(module.get(), "reduce"));
    PyRef wrapper = checked(PyObject_CallMethod(module.get(), "singledispatch", "O", any.get()));
    PyRef dispatch = checked(PyObject_GetAttrString(wrapper.get(), "dispatch"));
    PyObject* found = reinterpret_cast<PyFunctionObject*>(dispatch.get())->func_code;
    return reinterpret_cast<PyCodeObject*>(PyRef::borrow(found).release());
  }();
  return code;
}

}  // namespace

void prepare_callable_objects() {
  getters();
  code_of_dispatch();
}

bool is_random_generator(PyTypeObject* type) {
  static PyTypeObject* base = type_in("_random", "Random");
  return PyType_IsSubtype(type, base);
}

bool is_partial(PyObject* object) { return Py_IS_TYPE(object, getters().partial); }

bool is_getter_class(PyTypeObject* type) {
  return type == getters().item || type == getters().attribute || type == getters().method;
}

PyRef call_getter(Capture& capture, PyObject* getter, CallArgs& args) {
  if (args.values.size() != 1 || args.keyword_count()) return args.call(getter);  // raises
  const GetterParts parts = parts_of(capture, getter);
  PyObject* object = args[0];
  if (Py_IS_TYPE(getter, getters().item))
    return one_or_tuple(capture, parts.args, [&](PyObject* key) { return get_item(capture, object, key); });
  if (Py_IS_TYPE(getter, getters().attribute))
    return one_or_tuple(capture, parts.args, [&](PyObject* name) { return attribute_along(capture, object, name); });
  return call_method(capture, object, parts);
}

PyRef call_partial(Capture& capture, PyObject* partial, CallArgs args) {
  PyRef function = load_attribute(capture, partial, capture::interned("func").get());
  PyRef given = load_attribute(capture, partial, capture::interned("args").get());
  PyRef named = load_attribute(capture, partial, capture::interned("keywords").get());
  capture.consult(given.get());
  capture.consult(named.get());
  CallArgs all;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given.get()); ++i)
    all.values.push_back(capture.adopt(PyRef::borrow(PyTuple_GET_ITEM(given.get(), i))));
  all.values.insert(all.values.end(), args.values.begin(), args.values.begin() + args.positional());
  PyRef keywords = checked(PyDict_Copy(named.get()));
  if (PyRef own = args.dict()) python::check(PyDict_Update(keywords.get(), own.get()) == 0);
  if (PyDict_GET_SIZE(keywords.get()) > 0) {
    all.keywords = checked(PySequence_Tuple(keywords.get()));
    Py_ssize_t position = 0;
    PyObject* value = nullptr;
    while (PyDict_Next(keywords.get(), &position, nullptr, &value))
      all.values.push_back(capture.adopt(PyRef::borrow(value)));
  }
  return call(capture, function.get(), std::move(all));
}

PyRef referent_of(Capture& capture, PyObject* reference) {
  PyObject* object = PyWeakref_GET_OBJECT(reference);
  const Source* source = capture.source_of(reference);
  // The capture holds on to what it made or took away, and the frame to its variables as they were: what the user has
  // let go of may be gone for him by now.
  const bool is_held = FrameInterpreter::is_variable(object);
  if (object != Py_None && !is_held &&
      ((!source && capture.is_made(object)) || !capture.journal.empty() || capture.lets_go))
    capture.stop(BreakReason::CFunction, "weakref.ref.__call__");
  if (!source) return capture.adopt(PyRef::borrow(object));
  return capture.admit(object, capture.sources.step(source, AccessKind::Referent));
}

PyRef refer_weakly(Capture& capture, PyObject* callable, CallArgs& args) {
  // One with a callback would call it when the capture lets go of its objects.
  const bool silent = args.positional() == 1 || (args.positional() == 2 && args[1] == Py_None);
  if (!silent || args.keyword_count() || python::is_tensor(args[0]))
    capture.stop(BreakReason::Creation, Py_TYPE(callable) == &PyType_Type ? "weakref.ReferenceType" : "weakref.ref");
  PyRef reference = args.call(callable);
  Oracle::allow(reference.get());  // an object has but one, which says nothing that the object does not
  return result_of(capture, std::move(reference));
}

PyRef count_elements(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() != 2 || args.keyword_count() || !PyDict_Check(args[0])) return args.call(callable);
  PyRef items = items_of(capture, args[1]);
  capture.settle_deep(items.get());
  watch_keys(capture, args[0], items.get());
  capture.consult(args[0]);
  capture.before_write(args[0]);
  args.values[1] = std::move(items);
  return args.call(callable);
}

PyRef call_pattern_method(Capture& capture, PyObject* method, CallArgs& args) {
  const std::string_view owner = reinterpret_cast<PyDescrObject*>(method)->d_type->tp_name;
  if ((owner != "re.Pattern" && owner != "re.Match") || args.values.empty()) return {};
  if (const Source* source = capture.source_of(args[0]))
    capture.add_guard({GuardKind::Identity, source, args.values[0]});
  for (size_t i = 1; i < args.values.size(); ++i) {
    // A function that makes the text to put in would be called by C code.
    if (!capture.is_deep_constant(args[i])) return {};
    capture.settle_deep(args[i]);
  }
  return capture.made(args.call(method));
}

PyRef exception_info(Capture& capture, PyObject* callable, CallArgs& args) {
  PyRef exception = PyRef::steal(PyErr_GetHandledException());
  if (exception && exception.get() != Py_None) {
    // Else it may be one that the caller handles.
    if (capture.source_of(exception.get()) || capture.birth_of(exception.get()) < 0)
      capture.stop(BreakReason::CFunction, "sys.exc_info");
    PyRef found = args.call(callable);  // sys.exception gives the exception itself
    return found.get() == exception.get() ? found : capture.made(std::move(found));
  }
  capture.admit(Py_None, capture.sources.handled());
  return capture.made(args.call(callable));
}

PyRef dispatched(Capture& capture, PyObject* function, const CallArgs& args) {
  auto* dispatch = reinterpret_cast<PyFunctionObject*>(function);
  if (dispatch->func_code != reinterpret_cast<PyObject*>(code_of_dispatch())) return {};
  const Source* source = capture.source_of(function);
  if (!source || args.values.size() != 1 || args.keyword_count() || !PyType_Check(args[0])) return {};
  PyRef names = checked(PyCode_GetFreevars(code_of_dispatch()));
  const Source* closure = capture.sources.step(source, AccessKind::FunctionClosure);
  auto variable = [&](std::string_view wanted) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i) {
      if (python::text_of(PyTuple_GET_ITEM(names.get(), i)) != wanted) continue;
      PyObject* cell = PyTuple_GET_ITEM(dispatch->func_closure, i);
      const Source* at = capture.sources.item(closure, static_cast<int64_t>(i));
      return capture.admit(PyCell_GET(cell), capture.sources.step(at, AccessKind::CellContents));
    }
    return PyRef();
  };
  PyRef token = variable("cache_token"), registry = variable("registry");
  // With abstract classes registered, any other registration in the process may change the answer.
  if (!token || token.get() != Py_None || !registry || !PyDict_CheckExact(registry.get())) return {};
  capture.consult(registry.get());
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(registry.get(), &position, &key, &value))
    capture.read_key(registry.get(), capture.need_source(registry.get()), key, value);
  PyRef found;
  {
    Suspended suspended(capture);  // it writes to its own cache alone
    found = args.call(function);
  }
  return capture.adopt(std::move(found));
}

}  // namespace firesteel::capture
