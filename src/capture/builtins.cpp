// Builtin functions and types that capture knows: each with a rule for what it reads and what it gives.
#include <algorithm>
#include <array>
#include <unordered_map>

#include <fmt/format.h>

#include "aot/fake_tensor.h"
#include "aot/value_ranges.h"
#include "capture/annotations.h"
#include "capture/builtin_rules.h"
#include "capture/callable_objects.h"
#include "capture/callables.h"
#include "capture/class_facts.h"
#include "capture/cpython/frame_shim.h"
#include "capture/identities.h"
#include "capture/inference_mode.h"
#include "capture/iterables.h"
#include "capture/leaf_hooks.h"
#include "capture/mapping_proxies.h"
#include "capture/marked_calls.h"
#include "capture/overridden_calls.h"
#include "capture/seen_types.h"
#include "capture/tensor_history.h"
#include "capture/tensor_text.h"
#include "capture/transforms.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

bool any_tensor(const CallArgs& args) {
  return std::any_of(args.values.begin(), args.values.end(),
                     [](const PyRef& value) { return python::is_tensor(value.get()); });
}

// math.prod over plain numbers, one by one: those that change are computed with. Empty for other things.
PyRef product_of(Capture& capture, PyObject* items) {
  if (!PyTuple_Check(items) && !PyList_CheckExact(items)) return {};
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(items);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!is_number(PySequence_Fast_GET_ITEM(items, i))) return {};
  }
  if (capture.source_of(items)) capture.consult(items);
  PyRef product = checked(PyLong_FromLong(1));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(items, i);
    PyRef made = capture.compute(operator_function("mul"), product.get(), item);
    if (!made) capture.settle(item);
    product = made ? made : checked(PyNumber_Multiply(product.get(), item));
  }
  return product;
}

// Computes from constants; on a tensor it is a node like torch's own.
PyRef pure(Capture& capture, PyObject* callable, CallArgs& args) {
  PyRef own_name = python::attribute(callable, "__name__");
  const std::string_view own = python::text_of(own_name.get());
  if (own == "prod" && args.values.size() == 1) {
    if (PyRef product = product_of(capture, args[0])) return product;
  }
  if (own == "prod" || own == "fsum") {
    for (PyRef& value : args.values) settle(capture, value);
  }
  for (const PyRef& value : args.values) stop_at_made_address(capture, value.get());
  const size_t given = args.values.size();
  if ((given == 1 || given == 2) && !args.keyword_count()) {
    if (PyRef made = capture.compute(callable, args[0], given == 2 ? args[1] : nullptr)) return made;
  }
  const bool constant = std::all_of(args.values.begin(), args.values.end(),
                                    [&](const PyRef& value) { return capture.is_deep_constant(value.get()); });
  if (constant) return result_of(capture, args.call(callable));
  PyRef name = python::attribute(callable, "__name__");
  const std::string text(python::text_of(name.get()));
  if (PyType_Check(callable) && given == 1 && python::is_tensor(args[0]) && is_known(python::unpack(args[0])))
    return result_of(capture, args.call(callable));
  if (PyType_Check(callable) && given == 1) {
    if (PyRef number = capture.converted_data(callable, args[0])) return number;
  }
  if (PyType_Check(callable) && any_tensor(args)) capture.stop(BreakReason::DataDependent, text + "() of a tensor");
  if (any_tensor(args)) return capture.torch_call(callable, text, args.tuple(), args.dict());
  // Objects with methods of their own: __index__, __abs__, __lt__ are inlined where C code calls them.
  for (const PyRef& value : args.values) watch_comparison(capture, value.get(), "index");
  return result_of(capture, args.call(callable));
}

// Computes from plain numbers, in Python that is not worth following.
PyRef computed(Capture& capture, PyObject* callable, CallArgs& args) {
  for (PyRef& value : args.values) value = capture.consult_deep(value.get());
  Suspended suspended(capture);
  return capture.made(args.call(callable));
}

// Makes a class of names: it is made once, and serves every call.
PyRef make_class(Capture& capture, PyObject* callable, CallArgs& args) {
  for (PyRef& value : args.values) {
    if (!capture.is_deep_constant(value.get())) refuse(capture, callable);
    value = capture.consult_deep(value.get());
  }
  Suspended suspended(capture);
  PyRef made = args.call(callable);
  PyRef name = python::attribute(made.get(), "__name__");
  return capture.admit(made.get(), capture.sources.kept(made.get(), std::string(python::text_of(name.get()))));
}

// type(name, bases, namespace): made once as well, of constants and functions that close over nothing.
PyRef make_plain_class(Capture& capture, PyObject* callable, CallArgs& args) {
  const bool plain = PyUnicode_CheckExact(args[0]) && PyTuple_CheckExact(args[1]) && PyDict_CheckExact(args[2]);
  if (!plain) refuse(capture, callable);
  capture.settle_deep(args[2]);
  capture.consult(args[1]);
  capture.consult(args[2]);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[1]); ++i) {
    PyObject* base = PyTuple_GET_ITEM(args[1], i);
    if (!PyType_Check(base) || Py_TYPE(base) != &PyType_Type) refuse(capture, callable);
    auto* type = reinterpret_cast<PyTypeObject*>(base);
    PyRef key = interned("__init_subclass__");
    PyObject* hook = _PyType_Lookup(type, key.get());
    if (hook && Py_IS_TYPE(hook, &PyClassMethod_Type)) refuse(capture, callable);
  }
  Py_ssize_t position = 0;
  PyObject* value = nullptr;
  while (PyDict_Next(args[2], &position, nullptr, &value)) {
    const bool function = PyFunction_Check(value) && !reinterpret_cast<PyFunctionObject*>(value)->func_closure &&
                          !reinterpret_cast<PyFunctionObject*>(value)->func_defaults &&
                          !reinterpret_cast<PyFunctionObject*>(value)->func_kwdefaults;
    if (!function && !is_guardable_constant(value)) refuse(capture, callable);
  }
  Suspended suspended(capture);
  PyRef made = args.call(callable);
  return capture.admit(made.get(), capture.sources.kept(made.get(), std::string(python::text_of(args[0]))));
}

// typing.cast: the value as it is.
PyRef cast_value(Capture&, PyObject* callable, CallArgs& args) {
  return args.positional() == 2 && !args.keyword_count() ? args.values[1] : args.call(callable);
}

PyRef yes(Capture&, PyObject*, CallArgs&) { return PyRef::borrow(Py_True); }
PyRef no(Capture&, PyObject*, CallArgs&) { return PyRef::borrow(Py_False); }
PyRef nothing(Capture&, PyObject*, CallArgs&) { return PyRef::borrow(Py_None); }

PyRef length(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() != 1) return args.call(callable);
  if (python::is_tensor(args[0]) && python::unpack(args[0]).dim() > 0 && capture.is_stand_in(args[0]))
    return capture.size_number(firesteel::type_of(python::unpack(args[0])).sizes[0]);
  return checked(PyLong_FromSsize_t(length_of(capture, args[0])));
}

PyObject* class_of(PyObject* asked) {
  return PyType_Check(asked) ? asked : reinterpret_cast<PyObject*>(Py_TYPE(asked));
}

// Classes decide isinstance() by what they are; a guard on the object's class covers it.
PyRef is_instance(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() == 2) {
    capture.consult_deep(args[1]);
    if (const Source* source = capture.source_of(args[1]); source && PyType_Check(args[1])) {
      capture.admit(args[1], source);
    } else if (source && !PyTuple_Check(args[1])) {
      capture.add_guard({GuardKind::Identity, source, PyRef::borrow(args[1])});  // `int | str`
    }
  }
  if (!args.values.empty()) args.values[0] = as_the_program_sees(args.values[0], args);
  if (args.values.size() != 2) return args.call(callable);
  if (asks_own_code(capture, args[0], args[1])) return is_instance_of(callable, args);
  Suspended suspended(capture);
  PyRef answer = is_instance_of(callable, args);
  if (answer.get() == Py_False) capture.note_strangers(class_of(args[0]), args[1]);
  return answer;
}

// What the methods of ABCMeta call: (the abstract class, what is asked for).
PyRef is_of_abstract_class(Capture& capture, PyObject* callable, CallArgs& args) {
  Suspended suspended(capture);
  PyRef answer = args.call(callable);
  if (answer.get() == Py_False && args.values.size() == 2) capture.note_strangers(class_of(args[1]), args[0]);
  return answer;
}

PyRef is_callable(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() != 1) return args.call(callable);
  PyRef name = interned("__call__");
  if (PyTypeObject* type = Py_TYPE(args[0]); is_python_class(type))
    capture.guard_class_attribute(type, name.get(), _PyType_Lookup(type, name.get()));
  return checked(PyBool_FromLong(PyCallable_Check(args[0])));
}

PyRef type_of(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() == 3 && !args.keyword_count()) return make_plain_class(capture, callable, args);
  if (args.values.size() != 1) return args.call(callable);  // raises
  return PyRef::borrow(reinterpret_cast<PyObject*>(type_the_program_sees(args[0])));
}

PyRef interned_name(const CallArgs& args) {
  if (args.values.size() < 2 || !PyUnicode_CheckExact(args[1])) return {};
  PyObject* text = PyRef(args.values[1]).release();
  PyUnicode_InternInPlace(&text);
  return PyRef::steal(text);
}

PyRef get_attribute(Capture& capture, PyObject* callable, CallArgs& args) {
  PyRef name = interned_name(args);
  if (!name) return args.call(callable);  // raises
  if (args.values.size() == 2) return load_attribute(capture, args[0], name.get());
  try {
    if (PyRef value = find_attribute(capture, args[0], name.get())) return value;
    return args.values[2];
  } catch (const Break&) {
    throw;
  } catch (...) {
    python::set_python_error(std::current_exception());
  }
  if (capture.broken || !PyErr_ExceptionMatches(PyExc_AttributeError)) python::throw_python_error();
  PyErr_Clear();
  return args.values[2];
}

PyRef has_attribute(Capture& capture, PyObject* callable, CallArgs& args) {
  PyRef name = interned_name(args);
  if (!name) return args.call(callable);
  if (python::is_exact_tensor(args[0])) {
    // What somebody has set on the tensor itself is guarded, its absence as well.
    if (!_PyType_Lookup(Py_TYPE(args[0]), name.get()))
      return checked(PyBool_FromLong(find_attribute(capture, args[0], name.get()) ? 1 : 0));
    Suspended suspended(capture);
    return args.call(callable);
  }
  CallArgs with_default = args;
  PyRef missing = checked(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
  with_default.values.push_back(missing);
  PyRef found = get_attribute(capture, callable, with_default);
  return checked(PyBool_FromLong(found.get() != missing.get()));
}

PyRef set_attribute(Capture& capture, PyObject* callable, CallArgs& args) {
  PyRef name = interned_name(args);
  if (!name || args.values.size() != 3) return args.call(callable);
  store_attribute(capture, args[0], name.get(), args[2]);
  return PyRef::borrow(Py_None);
}

PyRef delete_attribute(Capture& capture, PyObject* callable, CallArgs& args) {
  PyRef name = interned_name(args);
  if (!name || args.values.size() != 2) return args.call(callable);
  store_attribute(capture, args[0], name.get(), nullptr);
  return PyRef::borrow(Py_None);
}

PyRef variables(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() != 1) refuse(capture, callable);
  if (PyRef found = find_attribute(capture, args[0], interned("__dict__").get())) return found;
  PyErr_SetString(PyExc_TypeError, "vars() argument must have __dict__ attribute");
  python::throw_python_error();
}

PyRef truth(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() != 1) return args.call(callable);
  if (python::is_tensor(args[0]) && !is_known(python::unpack(args[0])) &&
      python::unpack(args[0]).scalar_type() == at::kBool) {
    if (PyRef open = capture.data_item(args[0])) return open;  // nobody may ever ask for it
  }
  return PyRef::borrow(is_true(capture, args[0]) ? Py_True : Py_False);
}

PyRef text(Capture& capture, PyObject* callable, CallArgs& args) {
  const bool is_str = callable == reinterpret_cast<PyObject*>(&PyUnicode_Type) && args.values.size() == 1;
  if (is_str && !python::is_tensor(args[0]) && !has_known_text(capture, args[0])) return new_tensor_text(capture);
  for (const PyRef& value : args.values) watch_text(capture, value.get());
  return args.call(callable);
}

// torch._check_tensor_all_with(error, condition, message): an operator of the graph that raises the same.
PyRef check_all(Capture& capture, PyObject* callable, CallArgs& args) {
  const bool plain = args.values.size() >= 2 && args.values.size() <= 3 && !args.keyword_count();
  if (!plain || !python::is_tensor(args[1]) || python::unpack(args[1]).scalar_type() != at::kBool)
    return args.call(callable);  // raises
  PyRef text = checked(PyUnicode_FromString(
      "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an "
      "enhancement request to PyTorch.)"));
  if (args.values.size() == 3 && args[2] != Py_None) text = call(capture, args[2], {});
  if (args[0] != PyExc_RuntimeError || !PyUnicode_CheckExact(text.get()))
    capture.stop(BreakReason::DataDependent, "a tensor decides about an exception");
  PyRef torch = checked(PyImport_ImportModule("torch"));
  PyRef assertion = checked(PyObject_GetAttrString(torch.get(), "_assert_async"));
  PyRef every = checked(PyObject_GetAttrString(torch.get(), "_is_all_true"));
  PyRef all = capture.torch_call(every.get(), "torch._is_all_true", checked(PyTuple_Pack(1, args[1])));
  capture.torch_call(assertion.get(), "torch._assert_async", checked(PyTuple_Pack(2, all.get(), text.get())));
  return PyRef::borrow(Py_None);
}

// A new object of a C class that keeps what it is given.
PyRef keeper(Capture& capture, PyObject* callable, CallArgs& args) { return capture.made(args.call(callable)); }
// The same for one that does not look at numbers.
PyRef holder(Capture& capture, PyObject* callable, CallArgs& args) { return keeper(capture, callable, args); }

struct Row {
  const char *module, *name;
  BuiltinRule rule;
};
constexpr auto kRules = std::to_array<Row>({
    {"builtins", "len", length},
    {"builtins", "isinstance", is_instance},
    {"builtins", "issubclass", is_instance},
    {"_abc", "_abc_instancecheck", is_of_abstract_class},
    {"_abc", "_abc_subclasscheck", is_of_abstract_class},
    {"builtins", "callable", is_callable},
    {"builtins", "type", type_of},
    {"builtins", "getattr", get_attribute},
    {"builtins", "hasattr", has_attribute},
    {"builtins", "setattr", set_attribute},
    {"builtins", "delattr", delete_attribute},
    {"builtins", "vars", variables},
    {"builtins", "eval", evaluate},
    {"_thread", "get_ident", of_this_thread},
    {"_struct", "pack", pure},
    {"_struct", "unpack", pure},
    {"_struct", "calcsize", pure},
    {"traceback", "extract_tb", lines_of_traceback},
    {"builtins", "iter", iterate},
    {"builtins", "next", next_item},
    {"builtins", "enumerate", over_iterables},
    {"builtins", "zip", over_iterables},
    {"builtins", "map", over_iterables},
    {"builtins", "filter", over_iterables},
    {"builtins", "list", of_items},
    {"builtins", "tuple", of_items},
    {"builtins", "set", of_hashed_items},
    {"builtins", "frozenset", of_hashed_items},
    {"builtins", "sorted", of_ordered_items},
    {"builtins", "min", of_ordered_items},
    {"builtins", "max", of_ordered_items},
    {"builtins", "sum", sum_of},
    {"builtins", "any", is_any},
    {"builtins", "all", is_all},
    {"builtins", "reversed", reverse},
    {"builtins", "dict", make_dict},
    {"collections", "OrderedDict", make_dict},
    {"collections", "deque", over_iterables},
    {"builtins", "super", keeper},
    {"builtins", "object", keeper},
    {"functools", "partial", holder},
    {"operator", "itemgetter", keeper},
    {"operator", "attrgetter", keeper},
    {"operator", "methodcaller", keeper},
    {"types", "MethodType", keeper},
    {"types", "MappingProxyType", make_proxy},
    {"weakref", "ref", refer_weakly},
    {"sys", "exc_info", exception_info},
    {"sys", "exception", exception_info},
    {"traceback", "clear_frames", forget_frames},
    {"_warnings", "_filters_mutated", nothing},  // counts changes, for a cache that no captured code asks
    {"sys", "intern", pure},
    {"collections", "namedtuple", make_class},
    {"torch", "broadcast_shapes", computed},
    {"collections", "_count_elements", count_elements},
    {"builtins", "range", pure},
    {"builtins", "slice", holder},
    {"builtins", "int", pure},
    {"builtins", "float", pure},
    {"builtins", "complex", pure},
    {"builtins", "bytes", pure},
    {"builtins", "bool", truth},
    {"builtins", "str", text},
    {"builtins", "repr", text},
    {"builtins", "format", text},
    {"builtins", "ascii", text},
    {"builtins", "abs", pure},
    {"builtins", "round", pure},
    {"builtins", "pow", pure},
    {"builtins", "divmod", pure},
    {"builtins", "ord", pure},
    {"builtins", "chr", pure},
    {"builtins", "bin", pure},
    {"builtins", "hex", pure},
    {"builtins", "oct", pure},
    {"builtins", "hash", hash_of},
    {"builtins", "id", address},
    {"os", "fspath", pure},
    {"functools", "reduce", over_iterables},
    {"itertools", "chain", over_iterables},
    {"itertools", "zip_longest", over_iterables},
    {"itertools", "product", over_iterables},
    {"itertools", "permutations", over_iterables},
    {"itertools", "combinations", over_iterables},
    {"itertools", "combinations_with_replacement", over_iterables},
    {"itertools", "accumulate", over_iterables},
    {"itertools", "islice", over_iterables},
    {"itertools", "starmap", over_iterables},
    {"itertools", "takewhile", over_iterables},
    {"itertools", "dropwhile", over_iterables},
    {"itertools", "filterfalse", over_iterables},
    {"itertools", "groupby", over_iterables},
    {"itertools", "compress", over_iterables},
    {"itertools", "pairwise", over_iterables},
    {"itertools", "cycle", over_iterables},
    {"itertools", "tee", over_iterables},
    {"itertools", "count", pure},
    {"itertools", "repeat", keeper},
    {"typing", "cast", cast_value},
    {"inspect", "getattr_static", static_attribute},
    {"copy", "copy", copy_of},
    {"copy", "deepcopy", copy_of},
    {"copyreg", "_slotnames", slot_names},
    {"torch", "Size", of_items},
    {"torch", "device", pure},
    {"torch", "_check_tensor_all_with", check_all},
    {"torch.autograd", "grad", differentiate},
    {"torch.nn", "Parameter", make_parameter},
    {"torch.nn", "Module.register_forward_hook", leave_hook},
    {"torch.nn", "Module.register_forward_pre_hook", leave_hook},
    {"torch.nn", "Module.register_full_backward_hook", leave_hook},
    {"torch.nn", "Module.register_full_backward_pre_hook", leave_hook},
    {"torch.nn", "Module.register_backward_hook", leave_hook},
    {"torch.utils.hooks", "RemovableHandle.remove", leave_hook},
    {"torch.autograd.grad_mode", "inference_mode.__enter__", enter_block},
    {"torch.autograd.grad_mode", "inference_mode.__exit__", leave_block},
    {"torch._C", "_log_api_usage_once", nothing},
    {"torch._C", "_log_api_usage_metadata", nothing},
    {"torch.compiler", "is_compiling", yes},
    {"torch.compiler", "is_dynamo_compiling", yes},
    {"torch._utils", "is_compiling", yes},
    {"torch.compiler", "is_exporting", no},
    {"torch.jit", "is_scripting", no},
    {"torch.jit", "is_tracing", no},
});
// Modules whose C functions all compute from their arguments alone.
constexpr auto kPureModules = std::to_array<const char*>({"math", "cmath", "operator", "_operator"});

// Functions of the operator module that may change their first argument, or call it.
bool may_change(std::string_view name) {
  const bool reads =
      name == "index" || name == "indexOf" || name == "inv" || name == "invert" || name.starts_with("is_");
  return name == "setitem" || name == "delitem" || name == "call" || (name.starts_with("i") && !reads);
}

// Once PyTorch's own compiler has run in a process, every module that is made is noted in a table of that compiler.
bool is_bookkeeping_of_torch(PyObject* callable) {
  if (!PyFunction_Check(callable)) return false;
  const auto* function = reinterpret_cast<PyFunctionObject*>(callable);
  return PyUnicode_CompareWithASCIIString(function->func_qualname, "GenerationTracker.tag") == 0 &&
         function->func_module && PyUnicode_Check(function->func_module) &&
         PyUnicode_CompareWithASCIIString(function->func_module, "torch._dynamo.mutation_guard") == 0;
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
      const bool changes = std::string_view(name).ends_with("operator") && may_change(own);
      if (changes && (own[0] != 'i' || std::string_view(own) == "iconcat")) continue;
      table.emplace(PyRef::borrow(value).release(), changes ? assign_operator : pure);
    }
  }
  auto add = [&](const char* module_name, const char* name, BuiltinRule rule) {
    PyRef found = checked(PyImport_ImportModule(module_name));
    std::string_view left = name;
    while (found && !left.empty()) {  // `Class.method`
      const std::string part(left.substr(0, left.find('.')));
      left.remove_prefix(std::min(left.size(), part.size() + 1));
      found = python::attribute(found.get(), part.c_str());
    }
    if (found) table[found.release()] = rule;
  };
  for (const Row& row : kRules) add(row.module, row.name, row.rule);
  for (const ControlRule& row : control_rules()) add(row.module, row.name, row.rule);
  for (const ControlRule& row : torch_state_rules()) add(row.module, row.name, row.rule);
  for (const ControlRule& row : transform_rules()) add(row.module, row.name, row.rule);
  add("firesteel._tensor_hooks", "remove", LeafHooks::remove);
  add("firesteel._annotations", "begin", begin_notes);
  add("firesteel._annotations", "end", end_notes);
  for (const ControlRule& row : function_mode_rules()) add(row.module, row.name, row.rule);
  return table;
}

}  // namespace

bool passes_numbers_on(BuiltinRule rule) {
  constexpr BuiltinRule kRulesThatDo[] = {
      is_instance,    is_callable, type_of,    get_attribute, has_attribute,   set_attribute, delete_attribute,
      over_iterables, of_items,    pure,       sum_of,        is_any,          is_all,        truth,
      next_item,      holder,      cast_value, length,        of_ordered_items};
  return std::find(std::begin(kRulesThatDo), std::end(kRulesThatDo), rule) != std::end(kRulesThatDo);
}

BuiltinRule builtin_rule(PyObject* callable) {
  static const auto* table = new std::unordered_map<PyObject*, BuiltinRule>(make_table());
  auto found = table->find(callable);
  if (found != table->end()) return found->second;
  return is_bookkeeping_of_torch(callable) ? nothing : nullptr;
}

}  // namespace firesteel::capture
