// Builtin functions and types that capture knows: each with a rule for what it reads and what it gives.
#include <algorithm>
#include <array>
#include <unordered_map>

#include <fmt/format.h>

#include "capture/callables.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

[[noreturn]] void refuse(Capture& capture, PyObject* callable) {
  PyRef name = python::attribute(callable, "__name__");
  std::string text = name ? std::string(python::text_of(name.get())) : python::spell(callable);
  capture.stop(BreakReason::CFunction, std::move(text));
}

bool all_constant(Capture& capture, const CallArgs& args) {
  return std::all_of(args.values.begin(), args.values.end(),
                     [&](const PyRef& value) { return capture.is_deep_constant(value.get()); });
}

bool any_tensor(const CallArgs& args) {
  return std::any_of(args.values.begin(), args.values.end(),
                     [](const PyRef& value) { return python::is_tensor(value.get()); });
}

// Computes from constants; on a tensor it is a node like torch's own.
PyRef pure(Capture& capture, PyObject* callable, CallArgs& args) {
  if (all_constant(capture, args)) {
    PyRef result = args.call(callable);
    return PyList_CheckExact(result.get()) || PyAnySet_Check(result.get()) || PyDict_CheckExact(result.get())
               ? capture.made(std::move(result))
               : result;
  }
  PyRef name = python::attribute(callable, "__name__");
  const std::string text(python::text_of(name.get()));
  if (PyType_Check(callable) && any_tensor(args)) capture.stop(BreakReason::DataDependent, text + "() of a tensor");
  if (!any_tensor(args)) refuse(capture, callable);
  return capture.torch_call(callable, text, args.tuple(), args.dict());
}

// Answers that the packed ambient guard covers, or that hold for all plain tensors.
PyRef ambient(Capture&, PyObject* callable, CallArgs& args) { return args.call(callable); }

PyRef length(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() != 1) refuse(capture, callable);
  return checked(PyLong_FromSsize_t(length_of(capture, args[0])));
}

bool is_simple_class(PyObject* object) {
  if (PyTuple_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
      if (!is_simple_class(PyTuple_GET_ITEM(object, i))) return false;
    }
    return true;
  }
  if (!PyType_Check(object)) return false;
  // Metaclasses decide isinstance() themselves; those of abc and torch only look.
  PyTypeObject* meta = Py_TYPE(object);
  const std::string_view name = meta->tp_name;
  return meta == &PyType_Type || name == "ABCMeta" || name == "abc.ABCMeta" || name == "_TensorMeta" ||
         name == "_ParameterMeta" || name == "torch._C._TensorMeta" || name == "_BufferMeta" || name == "EnumMeta" ||
         name == "EnumType";
}

PyRef is_instance(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() != 2 || !is_simple_class(args[1]) || !capture.is_deep_constant(args[1]))
    refuse(capture, callable);
  return args.call(callable);
}

PyRef is_callable(Capture&, PyObject*, CallArgs& args) { return checked(PyBool_FromLong(PyCallable_Check(args[0]))); }

PyRef type_of(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() != 1) refuse(capture, callable);
  return PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(args[0])));
}

PyRef get_attribute(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() < 2 || !PyUnicode_CheckExact(args[1])) refuse(capture, callable);
  PyRef name = args.values[1];
  PyObject* text = name.release();
  PyUnicode_InternInPlace(&text);
  name = PyRef::steal(text);
  if (args.values.size() == 2) return load_attribute(capture, args[0], name.get());
  if (PyRef value = find_attribute(capture, args[0], name.get())) return value;
  return args.values[2];
}

PyRef has_attribute(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() != 2 || !PyUnicode_CheckExact(args[1]) || python::is_tensor(args[0]))
    refuse(capture, callable);
  return checked(PyBool_FromLong(static_cast<bool>(find_attribute(capture, args[0], args[1]))));
}

PyRef iterate(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() != 1) refuse(capture, callable);
  return get_iterator(capture, args[0]);
}

PyRef next_item(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.empty() || !PyIter_Check(args[0]) || !capture.is_made(args[0])) refuse(capture, callable);
  return capture.adopt(args.call(callable));
}

// enumerate, zip, list, tuple, …: everything iterable is looked at as a whole, then the builtin runs as it is.
PyRef over_iterables(Capture& capture, PyObject* callable, CallArgs& args) {
  for (size_t i = 0; i < args.values.size(); ++i) {
    if (PyLong_CheckExact(args[i]) || PyBool_Check(args[i])) continue;
    args.values[i] = get_iterator(capture, args[i]);
  }
  return capture.made(args.call(callable));
}

PyRef reverse(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() != 1 || !(is_sequence(args[0]) || PyRange_Check(args[0]))) refuse(capture, callable);
  capture.consult(args[0]);
  return capture.made(args.call(callable));
}

PyRef make_dict(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.positional() > 1 || (args.positional() == 1 && !is_mapping(args[0]))) refuse(capture, callable);
  if (args.positional() == 1) capture.consult(args[0]);
  return capture.made(args.call(callable));
}

struct Row {
  const char *module, *name;
  BuiltinRule rule;
};
constexpr auto kRules = std::to_array<Row>({
    {"builtins", "len", length},
    {"builtins", "isinstance", is_instance},
    {"builtins", "issubclass", is_instance},
    {"builtins", "callable", is_callable},
    {"builtins", "type", type_of},
    {"builtins", "getattr", get_attribute},
    {"builtins", "hasattr", has_attribute},
    {"builtins", "iter", iterate},
    {"builtins", "next", next_item},
    {"builtins", "enumerate", over_iterables},
    {"builtins", "zip", over_iterables},
    {"builtins", "list", over_iterables},
    {"builtins", "tuple", over_iterables},
    {"builtins", "reversed", reverse},
    {"builtins", "dict", make_dict},
    {"builtins", "range", pure},
    {"builtins", "slice", pure},
    {"builtins", "int", pure},
    {"builtins", "float", pure},
    {"builtins", "bool", pure},
    {"builtins", "str", pure},
    {"builtins", "complex", pure},
    {"builtins", "set", pure},
    {"builtins", "frozenset", pure},
    {"builtins", "abs", pure},
    {"builtins", "min", pure},
    {"builtins", "max", pure},
    {"builtins", "sum", pure},
    {"builtins", "round", pure},
    {"builtins", "pow", pure},
    {"builtins", "divmod", pure},
    {"builtins", "any", pure},
    {"builtins", "all", pure},
    {"builtins", "sorted", pure},
    {"builtins", "ord", pure},
    {"builtins", "chr", pure},
    {"builtins", "repr", pure},
    {"builtins", "hash", pure},
    {"torch", "Size", pure},
    {"torch", "device", pure},
    {"torch", "is_grad_enabled", ambient},
    {"torch", "get_default_dtype", ambient},
    {"torch", "is_inference_mode_enabled", ambient},
    {"torch", "is_autocast_enabled", ambient},
    {"torch", "get_autocast_dtype", ambient},
    {"torch._C", "_get_tracing_state", ambient},
    {"torch._C", "_is_torch_function_enabled", ambient},
    {"torch._C", "_has_torch_function", ambient},
    {"torch._C", "_has_torch_function_unary", ambient},
    {"torch._C", "_has_torch_function_variadic", ambient},
    {"torch", "promote_types", ambient},
    {"torch", "is_floating_point", ambient},
    {"torch", "is_complex", ambient},
});
// Modules whose C functions all compute from their arguments alone.
constexpr auto kPureModules = std::to_array<const char*>({"math", "cmath", "operator", "_operator"});

// Functions of the operator module that may change their first argument, or call it.
bool may_change(std::string_view name) {
  const bool reads =
      name == "index" || name == "indexOf" || name == "inv" || name == "invert" || name.starts_with("is_");
  return name == "setitem" || name == "delitem" || name == "call" || (name.starts_with("i") && !reads);
}

std::unordered_map<PyObject*, BuiltinRule> make_table() {
  std::unordered_map<PyObject*, BuiltinRule> table;
  for (const char* name : kPureModules) {
    PyRef module = checked(PyImport_ImportModule(name));
    Py_ssize_t position = 0;
    PyObject* value = nullptr;
    while (PyDict_Next(PyModule_GetDict(module.get()), &position, nullptr, &value)) {
      if (!PyCFunction_Check(value)) continue;
      // By the function's own name: the module has each a second time, as `__iadd__`.
      const char* own = reinterpret_cast<PyCFunctionObject*>(value)->m_ml->ml_name;
      if (std::string_view(name).ends_with("operator") && may_change(own)) continue;
      table.emplace(PyRef::borrow(value).release(), pure);
    }
  }
  for (const Row& row : kRules) {
    PyRef module = checked(PyImport_ImportModule(row.module));
    if (PyRef found = python::attribute(module.get(), row.name)) table[found.release()] = row.rule;
  }
  return table;
}

// ---- methods of containers

enum class Effect { Reads, Copies, Changes, Views, Gets };
struct Method {
  PyTypeObject* type;
  const char* name;
  Effect effect;
};

const std::vector<Method>& methods() {
  static const auto* rows = new std::vector<Method>{
      {&PyList_Type, "append", Effect::Changes}, {&PyList_Type, "extend", Effect::Changes},
      {&PyList_Type, "insert", Effect::Changes}, {&PyList_Type, "pop", Effect::Changes},
      {&PyList_Type, "clear", Effect::Changes},  {&PyList_Type, "reverse", Effect::Changes},
      {&PyList_Type, "copy", Effect::Copies},    {&PyDict_Type, "copy", Effect::Copies},
      {&PyDict_Type, "keys", Effect::Views},     {&PyDict_Type, "values", Effect::Views},
      {&PyDict_Type, "items", Effect::Views},    {&PyDict_Type, "get", Effect::Gets},
      {&PyDict_Type, "update", Effect::Changes}, {&PyDict_Type, "setdefault", Effect::Changes},
      {&PyDict_Type, "pop", Effect::Changes},    {&PyDict_Type, "clear", Effect::Changes},
      {&PySet_Type, "add", Effect::Changes},
  };
  return *rows;
}

PyRef dict_get(Capture& capture, PyObject* dict, PyObject* key, PyRef fallback) {
  if (!is_guardable_constant(key))
    capture.stop(BreakReason::Value, fmt::format("a {} is a dict's key", Py_TYPE(key)->tp_name));
  const Source* source = capture.source_of(dict);
  PyObject* value = PyDict_GetItemWithError(dict, key);
  if (!value) {
    python::check(!PyErr_Occurred());
    if (source) capture.add_guard({GuardKind::Absent, source, PyRef::borrow(key)});
    return fallback;
  }
  return source ? capture.admit(value, capture.sources.item(source, key)) : capture.adopt(PyRef::borrow(value));
}

}  // namespace

BuiltinRule builtin_rule(PyObject* callable) {
  static const auto* table = new std::unordered_map<PyObject*, BuiltinRule>(make_table());
  auto found = table->find(callable);
  return found == table->end() ? nullptr : found->second;
}

bool has_container_methods(PyTypeObject* type) {
  const std::string_view name = type->tp_name;
  return type == &PyList_Type || type == &PyDict_Type || type == &PyTuple_Type || type == &PySet_Type ||
         type == &PyUnicode_Type || type == &PyLong_Type || type == &PyFloat_Type || type == &PyBytes_Type ||
         type == &PyRange_Type || name == "torch.Size" || name == "collections.OrderedDict";
}

PyRef call_container_method(Capture& capture, PyMethodDescrObject* method, CallArgs& args) {
  PyTypeObject* type = method->d_common.d_type;
  const std::string_view name = python::text_of(method->d_common.d_name);
  PyObject* callable = reinterpret_cast<PyObject*>(method);
  if (args.values.empty()) refuse(capture, callable);
  PyObject* self = args[0];
  const bool ordered = std::string_view(type->tp_name) == "collections.OrderedDict";
  for (const Method& row : methods()) {
    if (name != row.name || (type != row.type && !(ordered && row.type == &PyDict_Type))) continue;
    switch (row.effect) {
      case Effect::Changes:
        if (!capture.is_made(self)) capture.stop(BreakReason::Write, fmt::format("`{}.{}`", type->tp_name, name));
        for (size_t i = 1; i < args.values.size(); ++i) {
          if (name == "extend") args.values[i] = get_iterator(capture, args[i]);
          if (name == "update") capture.consult(args[i]);
        }
        return capture.adopt(args.call(callable));
      case Effect::Copies:
        capture.consult(self);
        return capture.made(args.call(callable));
      case Effect::Views:
        capture.consult(self);
        return args.call(callable);
      case Effect::Gets:
        if (args.keyword_count() || args.values.size() > 3) refuse(capture, callable);
        return dict_get(capture, self, args[1], args.values.size() == 3 ? args.values[2] : PyRef::borrow(Py_None));
      case Effect::Reads:
        break;
    }
  }
  if (!all_constant(capture, args) || (PyList_Check(self) && name == "sort")) refuse(capture, callable);
  if (PyList_Check(self) && name != "index" && name != "count") refuse(capture, callable);
  if (PyDict_Check(self)) refuse(capture, callable);
  PyRef result = args.call(callable);
  return PyList_CheckExact(result.get()) ? capture.made(std::move(result)) : result;
}

}  // namespace firesteel::capture
