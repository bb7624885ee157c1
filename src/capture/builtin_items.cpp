// Rules of builtins that take iterables: what they go through is looked at first.
#include "capture/builtin_rules.h"

#include <array>
#include <unordered_map>

#include <fmt/format.h>

#include "capture/callables.h"
#include "capture/cpython/frame_shim.h"
#include "capture/iterables.h"
#include "capture/mapping_proxies.h"
#include "capture/outside_iterators.h"
#include "capture/python_forms.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

// Which argument of a builtin is called for the items: by position, and by keyword.
struct Caller {
  const char *module, *name;
  size_t position;
  const char* keyword;
};
constexpr auto kCallers = std::to_array<Caller>({
    {"builtins", "map", 0, ""},
    {"builtins", "filter", 0, ""},
    {"functools", "reduce", 0, ""},
    {"itertools", "starmap", 0, ""},
    {"itertools", "takewhile", 0, ""},
    {"itertools", "dropwhile", 0, ""},
    {"itertools", "filterfalse", 0, ""},
    {"itertools", "accumulate", 1, "func"},
    {"itertools", "groupby", 1, "key"},
});

const Caller* caller(PyObject* callable) {
  static const auto* callers = [] {
    auto* made = new std::unordered_map<PyObject*, const Caller*>;
    for (const Caller& row : kCallers) {
      PyRef module = checked(PyImport_ImportModule(row.module));
      made->emplace(checked(PyObject_GetAttrString(module.get(), row.name)).release(), &row);
    }
    return made;
  }();
  auto found = callers->find(callable);
  return found == callers->end() ? nullptr : found->second;
}

PyRef add(Capture& capture, PyObject* left, PyObject* right) {
  if (python::is_tensor(left) || python::is_tensor(right)) {
    return capture.torch_call(operator_function("add"), "operator.add", checked(PyTuple_Pack(2, left, right)));
  }
  if (PyRef made = capture.compute(operator_function("add"), left, right)) return made;
  watch_operator(capture, left, "add");
  watch_operator(capture, right, "add");
  return result_of(capture, checked(PyNumber_Add(left, right)));
}

template <bool kWanted>
PyRef any_is(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() != 1) return args.call(callable);
  PyRef iterator = get_iterator(capture, args[0]);
  while (PyRef item = next_of(capture, iterator.get())) {
    if (is_true(capture, item.get()) == kWanted) return PyRef::borrow(kWanted ? Py_True : Py_False);
  }
  return PyRef::borrow(kWanted ? Py_False : Py_True);
}

}  // namespace

void refuse(Capture& capture, PyObject* callable) {
  PyRef name = python::attribute(callable, "__name__");
  std::string text = name ? std::string(python::text_of(name.get())) : python::spell(callable);
  capture.stop(BreakReason::CFunction, std::move(text));
}

PyRef iterate(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() == 2) {
    capture.settle_all();  // it compares at each step
    args.values[0] = followed(args[0]);
    return capture.made(args.call(callable));
  }
  if (args.values.size() != 1) return args.call(callable);
  if (OutsideIterators::twin_of(capture, args[0])) return args.values[0];  // an iterator gives itself
  return get_iterator(capture, args[0]);
}

PyRef next_item(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.empty() || !PyIter_Check(args[0])) return args.call(callable);
  if (PyRef twin = OutsideIterators::twin_of(capture, args[0])) {
    args.values[0] = std::move(twin);
  } else if (!capture.is_made(args[0]) && !is_python_class(Py_TYPE(args[0]))) {
    stop_at_iterator(capture, args[0]);
  }
  if (is_python_class(Py_TYPE(args[0]))) watch_operator(capture, args[0], "next");
  return capture.adopt(args.call(callable));
}

// False for what is called for the items, and for values that only stand among them: reduce's first, a filling.
bool is_gone_through(const CallArgs& args, const Caller* row, size_t index) {
  if (index >= args.positional()) {
    const std::string_view name = python::text_of(PyTuple_GET_ITEM(args.keywords.get(), index - args.positional()));
    return name == "iterable" || name == "data" || name == "selectors";
  }
  if (!row) return true;
  const bool takes_first = std::string_view(row->name) == "reduce";
  return index != row->position && !(takes_first && index > 1);
}

// What only C code can go through, and nobody has guarded: a bytearray, an array.
bool is_iterable_from_outside(const Capture& capture, PyObject* value) {
  return Py_TYPE(value)->tp_iter && capture.source_of(value);
}

// enumerate, zip, map, itertools …: everything iterable is looked at as a whole, then the builtin runs as it is.
PyRef over_iterables(Capture& capture, PyObject* callable, CallArgs& args) {
  // Most of these look at what comes out of their iterables.
  const bool hands_on =
      callable == reinterpret_cast<PyObject*>(&PyEnum_Type) || callable == reinterpret_cast<PyObject*>(&PyZip_Type);
  if (!hands_on) capture.settle_all();
  for (const PyRef& value : args.values) capture.settle(value.get());
  const Caller* row = caller(callable);
  for (size_t i = 0; i < args.values.size(); ++i) {
    if (is_gone_through(args, row, i) && (is_iterable(args[i]) || is_iterable_from_outside(capture, args[i])))
      args.values[i] = get_iterator(capture, args[i]);
  }
  if (row) {
    const bool adds = std::string_view(row->name) == "accumulate" && args.positional() == 1 && !args.keyword_count();
    if (adds) args.values.push_back(PyRef::borrow(operator_function("add")));  // C code would not come back here
    if (row->position < args.positional()) args.values[row->position] = followed(args[row->position]);
    follow_keyword(args, row->keyword);
  }
  return capture.made(args.call(callable));
}

// list(), tuple(), set(), sorted(), min(): the items are taken first.
PyRef of_items(Capture& capture, PyObject* callable, CallArgs& args) {
  const bool single = args.positional() == 1;
  if (single && callable == reinterpret_cast<PyObject*>(&PyTuple_Type) && PyTuple_CheckExact(args[0]))
    return args.values[0];
  for (size_t i = 0; i < args.positional(); ++i) {
    if (single &&
        (is_iterable(args[i]) || is_python_class(Py_TYPE(args[i])) || is_iterable_from_outside(capture, args[i])))
      args.values[i] = items_of(capture, args[i]);
  }
  return result_of(capture, args.call(callable));
}

PyRef of_ordered_items(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() == 2 && !args.keyword_count()) {
    if (PyRef made = capture.compute(callable, args[0], args[1])) return made;
  }
  if (PyObject* form = form_of_extreme(capture, callable, args)) return call_form(capture, callable, form, args);
  for (const PyRef& value : args.values) capture.settle_deep(value.get());
  const bool single = args.positional() == 1;
  if (single && is_iterable(args[0])) {
    args.values[0] = items_of(capture, args[0]);
    capture.settle_deep(args[0]);
  }
  const bool has_key = follow_keyword(args, "key");
  for (size_t i = 0; i < args.positional() && !has_key; ++i) {
    if (python::is_tensor(args[i])) capture.stop(BreakReason::DataDependent, "tensors are compared");
    watch_comparison(capture, args[i], "lt");
  }
  return result_of(capture, args.call(callable));
}

PyRef of_hashed_items(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() == 1) {
    if (callable == reinterpret_cast<PyObject*>(&PyFrozenSet_Type) && PyFrozenSet_CheckExact(args[0]))
      return args.values[0];
    if (PyDict_CheckExact(args[0]) || PyAnySet_CheckExact(args[0])) {  // the hashes are at hand
      capture.settle_deep(args[0]);
      capture.consult(args[0]);
      return capture.made(args.call(callable));
    }
    args.values[0] = items_of(capture, args[0]);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[0]); ++i) watch_hash(capture, PyList_GET_ITEM(args[0], i));
  }
  return capture.made(args.call(callable));
}

PyRef sum_of(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.empty() || args.values.size() > 2) return args.call(callable);
  PyRef total = args.values.size() == 2 ? args.values[1] : checked(PyLong_FromLong(0));
  PyRef iterator = get_iterator(capture, args[0]);
  if (PyUnicode_Check(total.get()) || PyBytes_Check(total.get()) || PyByteArray_Check(total.get()))
    return args.call(callable);  // raises
  while (PyRef item = next_of(capture, iterator.get())) total = add(capture, total.get(), item.get());
  return total;
}

PyRef is_any(Capture& capture, PyObject* callable, CallArgs& args) { return any_is<true>(capture, callable, args); }
PyRef is_all(Capture& capture, PyObject* callable, CallArgs& args) { return any_is<false>(capture, callable, args); }

PyRef reverse(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() != 1) return args.call(callable);
  if (PyObject* dict = fs_view_dict(args[0])) {
    capture.consult(dict);
  } else if (!is_sequence(args[0]) && !PyRange_Check(args[0]) && !PyDict_Check(args[0])) {
    const bool known = is_python_class(Py_TYPE(args[0])) || is_guardable_constant(args[0]) || PyTuple_Check(args[0]);
    if (!known && capture.source_of(args[0]))
      capture.stop(BreakReason::Value, fmt::format("a {} is iterated", Py_TYPE(args[0])->tp_name));
    if (PyRef method = special_method(capture, args[0], "__reversed__")) return call(capture, method.get(), {});
    watch_operator(capture, args[0], "getitem");
    watch_operator(capture, args[0], "len");
  }
  if (PyList_Check(args[0]) || PyTuple_Check(args[0]) || PyDict_Check(args[0])) capture.consult(args[0]);
  return capture.made(args.call(callable));
}

PyRef make_dict(Capture& capture, PyObject* callable, CallArgs& args) {
  for (size_t i = 0; i < args.positional(); ++i) {
    if (PyRef shown = dict_behind(capture, args[i])) args.values[i] = std::move(shown);
    if (PyRef items = PyDict_Check(args[i]) ? PyRef() : dict_of_mapping(capture, args[i])) args.values[i] = items;
    if (PyDict_Check(args[i])) {
      capture.consult(args[i]);
    } else if (is_iterable(args[i])) {
      args.values[i] = items_of(capture, args[i]);
      capture.settle_deep(args[i]);
      for (Py_ssize_t k = 0; k < PyList_GET_SIZE(args[i]); ++k) capture.consult(PyList_GET_ITEM(args[i], k));
    }
  }
  return capture.made(args.call(callable));
}

}  // namespace firesteel::capture
