// Truth, length, iteration and items: Python's protocols on values that may have come from outside.
#include <fmt/format.h>

#include "aot/fake_tensor.h"
#include "aot/ones_like_others.h"
#include "aot/value_ranges.h"
#include "capture/arrays.h"
#include "capture/callables.h"
#include "capture/comparisons.h"
#include "capture/cpython/frame_shim.h"
#include "capture/mapping_proxies.h"
#include "capture/optimizers.h"
#include "capture/outside_iterators.h"
#include "capture/same_values.h"
#include "capture/tensor_keys.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

bool is_view(PyObject* object) {
  return fs_view_dict(object) || std::string_view(Py_TYPE(object)->tp_name).starts_with("odict_");
}

// A function of its own: to backends of users the items of a loop are `x[0]`, `x[1]`.
PyRef unbind(Capture& capture, PyObject* tensor) {
  static PyObject* rows =
      checked(PyObject_GetAttrString(checked(PyImport_ImportModule("firesteel._python_forms")).get(), "rows"))
          .release();
  return capture.torch_call(rows, "torch.Tensor.unbind", checked(PyTuple_Pack(1, tensor)));
}

// An object of the program's that says which number it stands for in an index.
PyRef as_index(Capture& capture, PyObject* key) {
  if (!is_python_class(Py_TYPE(key)) || PyLong_Check(key) || PyType_Check(key)) return PyRef::borrow(key);
  if (!_PyType_Lookup(Py_TYPE(key), interned("__index__").get())) return PyRef::borrow(key);
  PyRef number = call_special(capture, key, "__index__");
  return PyLong_CheckExact(number.get()) ? number : PyRef::borrow(key);  // C code says what is wrong
}

// Bounds that follow from constants of the code itself become numbers: a node takes no tensors there.
PyRef with_known_bounds(Capture& capture, PyObject* key) {
  if (PyTuple_CheckExact(key)) {
    PyRef items = checked(PySequence_List(key));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i)
      PyList_SetItem(items.get(), i, with_known_bounds(capture, PyList_GET_ITEM(items.get(), i)).release());
    return checked(PyList_AsTuple(items.get()));
  }
  if (!PySlice_Check(key)) return as_index(capture, key);
  auto* slice = reinterpret_cast<PySliceObject*>(key);
  PyRef bounds[] = {PyRef::borrow(slice->start), PyRef::borrow(slice->stop), PyRef::borrow(slice->step)};
  for (PyRef& bound : bounds) {
    bound = as_index(capture, bound.get());
    if (!python::is_tensor(bound.get())) continue;
    if (is_known(python::unpack(bound.get()))) {
      bound = checked(PyNumber_Index(bound.get()));
    } else if (c10::isFloatingType(python::unpack(bound.get()).scalar_type())) {
      continue;  // no place, as torch says
    } else if (PyRef number = capture.converted_data(reinterpret_cast<PyObject*>(&PyLong_Type), bound.get())) {
      bound = std::move(number);
    }
  }
  return checked(PySlice_New(bounds[0].get(), bounds[1].get(), bounds[2].get()));
}

// A place that data gives lies in the tensor in all calls that go well.
void require_place(Capture& capture, PyObject* tensor, Py_ssize_t dim, PyObject* place) {
  const std::vector<Dim> sizes = type_of(python::unpack(tensor)).sizes;
  if (!capture.is_data_number(place) || dim >= static_cast<Py_ssize_t>(sizes.size())) return;
  PyRef condition =
      capture.compare_data(operator_function("lt"), place, capture.size_number(sizes[static_cast<size_t>(dim)]).get());
  const std::optional<Relation> relation = condition ? capture.open_relation(condition.get()) : std::nullopt;
  if (relation) capture.require_data(*relation, PyExc_IndexError, nullptr);
}

// The end of a slice that data gives, as far as the tensor goes; from the front, which is looked at when a run has
// found it out.
PyRef bound_within(Capture& capture, PyObject* tensor, Py_ssize_t dim, PyObject* bound) {
  const std::vector<Dim> sizes = type_of(python::unpack(tensor)).sizes;
  if (!capture.is_data_number(bound) || !PyLong_CheckExact(bound) || dim >= static_cast<Py_ssize_t>(sizes.size()))
    return PyRef::borrow(bound);
  static PyObject* least = checked(PyObject_GetAttrString(PyImport_AddModule("builtins"), "min")).release();
  PyRef from_front = capture.compare_data(operator_function("ge"), bound, checked(PyLong_FromLong(0)).get());
  if (const std::optional<Relation> relation = from_front ? capture.open_relation(from_front.get()) : std::nullopt)
    trace_symbols()->require(*relation);
  PyRef size = capture.size_number(sizes[static_cast<size_t>(dim)]);
  PyRef inside = capture.compare_data(operator_function("le"), bound, size.get());
  if (!inside || inside.get() == Py_True) return PyRef::borrow(bound);
  PyRef made = capture.compute(least, bound, size.get());
  return made ? made : PyRef::borrow(bound);
}

PyRef slice_within(Capture& capture, PyObject* tensor, Py_ssize_t dim, PyObject* item) {
  auto* slice = reinterpret_cast<PySliceObject*>(item);
  if (!capture.is_data_number(slice->start) && !capture.is_data_number(slice->stop)) return PyRef::borrow(item);
  PyRef start = bound_within(capture, tensor, dim, slice->start),
        stop = bound_within(capture, tensor, dim, slice->stop);
  return checked(PySlice_New(start.get(), stop.get(), slice->step));
}

// Torch takes no numbers that change, or that data gives, among the places of an index, and takes them as what they
// stand for: an item along a dimension. False where nothing is left of the places.
bool select_by_data(Capture& capture, PyRef& tensor, PyRef& places) {
  const bool many = PyTuple_CheckExact(places.get());
  PyRef rest = many ? checked(PySequence_List(places.get())) : checked(PyList_New(0));
  if (!many) python::check(PyList_Append(rest.get(), places.get()) == 0);
  auto is_place = [&](PyObject* item) {
    return PyLong_CheckExact(item) && (capture.is_data_number(item) || capture.is_open_number(item));
  };
  Py_ssize_t plain = 0;  // so many stand for one dimension each
  while (plain < PyList_GET_SIZE(rest.get())) {
    PyObject* item = PyList_GET_ITEM(rest.get(), plain);
    if (!PyLong_CheckExact(item) && !PySlice_Check(item)) break;
    ++plain;
  }
  bool any = false;
  for (Py_ssize_t i = plain; i-- > 0;) {
    PyRef item = PyRef::borrow(PyList_GET_ITEM(rest.get(), i));
    if (PySlice_Check(item.get())) {
      PyRef within = slice_within(capture, tensor.get(), i, item.get());
      any = any || within.get() != item.get();
      PyList_SetItem(rest.get(), i, within.release());
    }
    if (!is_place(item.get())) continue;
    static PyObject* select =
        checked(PyObject_GetAttrString(
                    checked(PyObject_GetAttrString(checked(PyImport_ImportModule("torch")).get(), "Tensor")).get(),
                    "select"))
            .release();
    require_place(capture, tensor.get(), i, item.get());
    tensor =
        capture.torch_call(select, "torch.Tensor.select",
                           checked(PyTuple_Pack(3, tensor.get(), checked(PyLong_FromSsize_t(i)).get(), item.get())));
    python::check(PyList_SetSlice(rest.get(), i, i + 1, nullptr) == 0);
    any = true;
  }
  if (!any) return true;
  places = checked(PyList_AsTuple(rest.get()));
  return PyTuple_GET_SIZE(places.get()) > 0;
}

}  // namespace

PyRef call_special(Capture& capture, PyObject* object, const char* name, std::vector<PyRef> args) {
  PyRef method = special_method(capture, object, name);
  if (!method) {
    capture.stop(BreakReason::Value,
                 fmt::format("a {} has no {} that can be followed", Py_TYPE(object)->tp_name, name));
  }
  CallArgs given;
  given.values = std::move(args);
  return call(capture, method.get(), std::move(given));
}

bool is_true(Capture& capture, PyObject* value) {
  if (value == Py_True) return true;
  if (value == Py_False || value == Py_None) return false;
  if (!capture.concrete) {
    if (python::is_tensor(value)) {
      if (const std::optional<bool> known = known_truth(python::unpack(value))) return *known;
      capture.stop(BreakReason::DataDependent, "a tensor decides a branch");
    }
    if (const std::optional<bool> answer = capture.truth_of_data(value)) return *answer;
    if (std::optional<bool> answer = capture.decide(operator_function("truth"), value, nullptr)) return *answer;
    capture.settle(value);
    PyTypeObject* type = Py_TYPE(value);
    if (is_guardable_constant(value)) {
    } else if (PyDict_Check(value) || PyList_Check(value) || PyTuple_Check(value) || PyAnySet_Check(value) ||
               guards::is_plain_deque(value)) {
      capture.guard_length(value);
    } else if (is_python_class(type)) {
      watch_operator(capture, value, "bool");
      watch_operator(capture, value, "len");
    } else {
      const bool has_truth = type->tp_as_number && type->tp_as_number->nb_bool;
      const bool has_length = (type->tp_as_mapping && type->tp_as_mapping->mp_length) ||
                              (type->tp_as_sequence && type->tp_as_sequence->sq_length);
      if (!has_truth && !has_length) return true;
      if (capture.source_of(value))
        capture.stop(BreakReason::Value, fmt::format("the truth of a {} is asked", type->tp_name));
    }
  }
  const int truth = PyObject_IsTrue(value);
  python::check(truth >= 0);
  return truth == 1;
}

Py_ssize_t length_of(Capture& capture, PyObject* object) {
  const PyRef shown = capture.concrete ? PyRef() : dict_behind(capture, object);
  if (shown) object = shown.get();
  if (!capture.concrete && !python::is_tensor(object) && !is_guardable_constant(object)) {
    if (PyDict_Check(object) || PyList_Check(object) || PyTuple_Check(object) || PyAnySet_Check(object) ||
        guards::is_plain_deque(object)) {
      capture.guard_length(object);
    } else if (PyObject* dict = fs_view_dict(object)) {
      capture.guard_length(dict);
    } else if (PyObject* method =
                   PyType_Check(object) ? _PyType_Lookup(Py_TYPE(object), interned("__len__").get()) : nullptr;
               method && PyFunction_Check(method)) {
      // Of a class, by its metaclass: an enum has one.
      const PyRef answer = call_special(capture, object, "__len__");
      capture.settle(answer.get());
      const Py_ssize_t length = PyNumber_AsSsize_t(answer.get(), PyExc_OverflowError);
      python::check(length >= 0);
      return length;
    } else if (!is_python_class(Py_TYPE(object)) && capture.source_of(object)) {
      capture.stop(BreakReason::Value, fmt::format("the length of a {}", Py_TYPE(object)->tp_name));
    }
    if (!is_c_class(Py_TYPE(object))) watch_operator(capture, object, "len");
  }
  const Py_ssize_t length = PyObject_Length(object);
  if (length < 0) python::throw_python_error();
  return length;
}

bool contains(Capture& capture, PyObject* container, PyObject* item) {
  if (!capture.concrete) {
    if (const PyRef shown = dict_behind(capture, container)) return contains(capture, shown.get(), item);
    if (PyDict_CheckExact(container)) {
      Py_ssize_t position = 0;
      PyObject* key = nullptr;
      while (PyDict_Next(container, &position, &key, nullptr)) capture.settle_deep(key);  // its values matter not
    } else {
      capture.settle_deep(container);
    }
    capture.settle_deep(item);
    if (python::is_tensor(container)) capture.stop(BreakReason::DataDependent, "`in` on a tensor");
    PyObject* dict = PyDict_Check(container) ? container : nullptr;
    if (PyDictKeys_Check(container)) dict = fs_view_dict(container);
    // A class of the program's may look for keys in its own way.
    static PyObject* name = interned("__contains__").release();
    static PyObject* own = _PyType_Lookup(&PyDict_Type, name);
    const bool plain = dict && _PyType_Lookup(Py_TYPE(dict), name) == own;
    if (plain) {
      if (!is_c_class(Py_TYPE(dict))) capture.guard_class_attribute(Py_TYPE(dict), name, own);
      const PyRef asked = asked_key(capture, dict, item);
      item = asked.get();
      const Source* source = capture.source_of(dict);
      PyObject* value = PyDict_GetItemWithError(dict, item);
      python::check(value || !PyErr_Occurred());
      if (source && value) {
        if (is_guardable_constant(item))
          capture.guard_present(dict, source, item);
        else
          capture.consult(dict, /*finds_tensors=*/true);
      }
      if (source && !value) {
        if (is_guardable_constant(item))
          capture.guard_absent(dict, source, item);
        else
          capture.consult(dict, /*finds_tensors=*/true);
      }
      return value != nullptr;
    }
    PyObject* found = is_python_class(Py_TYPE(container)) ? _PyType_Lookup(Py_TYPE(container), name) : nullptr;
    const bool follows = (found && PyFunction_Check(found)) || (!PyDict_Check(container) && !PyList_Check(container));
    if (is_python_class(Py_TYPE(container)) && follows) {
      PyRef method = special_method(capture, container, "__contains__");
      if (method) {
        CallArgs args;
        args.values.push_back(PyRef::borrow(item));
        return is_true(capture, call(capture, method.get(), std::move(args)).get());
      }
      PyRef iterator = get_iterator(capture, container);
      while (PyRef found = next_of(capture, iterator.get())) {
        watch_comparison(capture, found.get(), "eq");
        const int same = PyObject_RichCompareBool(found.get(), item, Py_EQ);
        python::check(same >= 0);
        if (same) return true;
      }
      return false;
    }
    if (PyAnySet_Check(container)) {
      const PyRef asked = asked_key(capture, container, item);
      capture.consult(container, /*finds_tensors=*/true);
      const int found = PySequence_Contains(container, asked.get());
      python::check(found >= 0);
      return found == 1;
    } else {
      CallArgs searched{{PyRef::borrow(container), PyRef::borrow(item)}, {}};
      if (PyRef found = search_by_items(capture, "__contains__", searched)) return found.get() == Py_True;
      watch_comparison(capture, item, "eq");
      watch_comparison(capture, container, "contains");
    }
  }
  const int found = PySequence_Contains(container, item);
  python::check(found >= 0);
  return found == 1;
}

void stop_at_iterator(Capture& capture, PyObject* iterator) {
  if (PyGen_Check(iterator)) {
    PyRef name = python::attribute(iterator, "__name__");
    capture.stop(BreakReason::Iterator, fmt::format("the generator `{}`", python::text_of(name.get())));
  }
  capture.stop(BreakReason::Iterator, fmt::format("a {}", Py_TYPE(iterator)->tp_name));
}

PyRef get_iterator(Capture& capture, PyObject* value) {
  if (capture.concrete) return checked(PyObject_GetIter(value));
  if (PyIter_Check(value) && !is_python_class(Py_TYPE(value))) {
    if (PyRef twin = OutsideIterators::twin_of(capture, value)) return twin;
    if (!capture.is_made(value)) stop_at_iterator(capture, value);
    return PyRef::borrow(value);
  }
  if (python::is_tensor(value)) return get_iterator(capture, unbind(capture, value).get());
  if (const PyRef shown = dict_behind(capture, value)) return get_iterator(capture, shown.get());
  if (PyRef items = capture.with_changing_items(value)) return capture.made(checked(PyObject_GetIter(items.get())));
  PyTypeObject* type = Py_TYPE(value);
  static PyObject* iter_name = interned("__iter__").release();
  PyObject* method = !is_c_class(type) ? _PyType_Lookup(type, iter_name) : nullptr;
  if (method && PyFunction_Check(method)) {
    PyRef iterator = call_special(capture, value, "__iter__");
    if (PyIter_Check(iterator.get())) return iterator;
    PyErr_Format(PyExc_TypeError, "iter() returned non-iterator of type '%.100s'", Py_TYPE(iterator.get())->tp_name);
    python::throw_python_error();
  }
  if (PyObject* dict = fs_view_dict(value)) {
    capture.consult(dict, /*finds_tensors=*/true);
    return capture.made(checked(PyObject_GetIter(value)));
  }
  const bool known = is_guardable_constant(value) || PyUnicode_Check(value) || PyBytes_Check(value) ||
                     PyList_Check(value) || PyTuple_Check(value) || PyDict_Check(value) || PyAnySet_Check(value) ||
                     is_view(value) || PyRange_Check(value) || guards::is_plain_deque(value) ||
                     (capture.is_made(value) && is_c_class(type));
  if (known) {
    if (method) capture.guard_class_attribute(type, iter_name, method);
    capture.consult(value, /*finds_tensors=*/true);
    return capture.made(checked(PyObject_GetIter(value)));
  }
  if (is_python_class(type)) {
    watch_operator(capture, value, "getitem");
    return capture.made(checked(PyObject_GetIter(value)));  // by __getitem__, or an error
  }
  if (!type->tp_iter && !PySequence_Check(value)) return checked(PyObject_GetIter(value));  // raises
  capture.stop(BreakReason::Value, fmt::format("a {} is iterated", type->tp_name));
}

PyRef next_of(Capture& capture, PyObject* iterator) {
  if (!Py_TYPE(iterator)->tp_iternext) {
    PyErr_Format(PyExc_TypeError, "'%.200s' object is not an iterator", Py_TYPE(iterator)->tp_name);
    python::throw_python_error();
  }
  if (!capture.concrete && is_python_class(Py_TYPE(iterator))) watch_operator(capture, iterator, "next");
  PyRef item = PyRef::steal(Py_TYPE(iterator)->tp_iternext(iterator));
  if (item) return capture.adopt(std::move(item));
  if (PyErr_Occurred()) {
    if (capture.broken || !PyErr_ExceptionMatches(PyExc_StopIteration)) python::throw_python_error();
    PyErr_Clear();
  }
  return {};
}

PyRef get_item(Capture& capture, PyObject* object, PyObject* key) {
  if (capture.concrete) return checked(PyObject_GetItem(object, key));
  if (python::is_tensor(object)) {
    PyRef place = with_known_bounds(capture, place_with_tensors(key).get()), part = PyRef::borrow(object);
    if (!select_by_data(capture, part, place)) return part;
    object = part.get();
    return capture.torch_call(operator_function("getitem"), "operator.getitem",
                              checked(PyTuple_Pack(2, object, place.get())));
  }
  if (const PyRef shown = dict_behind(capture, object)) return get_item(capture, shown.get(), key);
  // A number that follows from constants of the code itself.
  const bool known = python::is_tensor(key) && python::unpack(key).dim() == 0 && is_known(python::unpack(key));
  const PyRef place = known ? checked(PyNumber_Index(key)) : PyRef::borrow(key);
  key = place.get();
  capture.settle_deep(key);
  if (is_guardable_constant(object)) {
    watch_comparison(capture, key, "index");
    return checked(PyObject_GetItem(object, key));
  }
  const Source* source = capture.source_of(object);
  PyTypeObject* type = Py_TYPE(object);
  static PyObject* getitem_name = interned("__getitem__").release();
  PyObject* method = !is_c_class(type) ? _PyType_Lookup(type, getitem_name) : nullptr;
  if (method && PyFunction_Check(method)) return call_special(capture, object, "__getitem__", {PyRef::borrow(key)});
  if (method) capture.guard_class_attribute(type, getitem_name, method);
  if (PyTuple_Check(object) || PyList_Check(object) || guards::is_plain_deque(object)) {
    if (PyLong_CheckExact(key) && source) {
      capture.guard_length(object);
      PyRef value = checked(PyObject_GetItem(object, key));
      if (capture.journal.touched(object)) {
        capture.consult(object);
        return capture.adopt(std::move(value));
      }
      Py_ssize_t index = PyLong_AsSsize_t(key);
      if (index < 0) index += PyObject_Length(object);
      return capture.admit_value(value.get(), capture.sources.item(source, index));
    }
    if (!is_guardable_constant(key) && !is_python_class(Py_TYPE(key)) && !PySlice_Check(key))
      capture.stop(python::is_tensor(key) ? BreakReason::DataDependent : BreakReason::Value,
                   fmt::format("a {} is an index", Py_TYPE(key)->tp_name));
    if (source) capture.consult(object);
    PyRef value = checked(PyObject_GetItem(object, key));
    if (PySlice_Check(key)) return capture.made(std::move(value));
    return capture.adopt(std::move(value));
  }
  if (PyDict_Check(object)) {
    const PyRef asked = asked_key(capture, object, key);
    key = asked.get();
    PyObject* value = PyDict_GetItemWithError(object, key);
    python::check(value || !PyErr_Occurred());
    if (value) {
      if (!source) return capture.adopt(PyRef::borrow(value));
      if (is_capturable_switch(capture, object, key)) return PyRef::borrow(Py_True);
      if (is_guardable_constant(key) || PyType_Check(key)) return capture.read_key(object, source, key, value);
      capture.consult(object, /*finds_tensors=*/true);
      return capture.adopt(PyRef::borrow(value));
    }
    if (source && is_guardable_constant(key)) {
      capture.guard_absent(object, source, key);
    } else {
      capture.consult(object, /*finds_tensors=*/true);
    }
    // A defaultdict, or a class with __missing__, makes what is not there.
    if (!PyDict_CheckExact(object)) {
      watch_key(capture, object, place.get());
      capture.before_write(object);
    }
    return capture.adopt(checked(PyObject_GetItem(object, key)));
  }
  if (is_python_class(type) || capture.is_made(object)) {
    if (!PyType_Check(object)) return capture.adopt(checked(PyObject_GetItem(object, key)));
  }
  if (PyType_Check(object)) {  // list[int], a class with __class_getitem__, an enum
    watch_comparison(capture, key, "eq");
    return capture.adopt(checked(PyObject_GetItem(object, key)));
  }
  capture.stop(BreakReason::Value, fmt::format("an item of a {} is read", type->tp_name));
}

void set_item(Capture& capture, PyObject* object, PyObject* key, PyObject* value) {
  auto really = [&] {
    python::check((value ? PyObject_SetItem(object, key, value) : PyObject_DelItem(object, key)) == 0);
  };
  if (capture.concrete) return really();
  if (python::is_tensor(object)) {
    if (!value) return really();
    const OnesLikeOthers ones;
    const PyRef place = place_with_tensors(key);
    capture.torch_call(operator_function("setitem"), "operator.setitem",
                       checked(PyTuple_Pack(3, object, place.get(), value)));
    return;
  }
  capture.settle_deep(key);
  PyTypeObject* type = Py_TYPE(object);
  const char* method_name = value ? "__setitem__" : "__delitem__";
  PyObject* method = !is_c_class(type) ? _PyType_Lookup(type, interned(method_name).get()) : nullptr;
  if (method && PyFunction_Check(method)) {
    std::vector<PyRef> args = {PyRef::borrow(key)};
    if (value) args.push_back(PyRef::borrow(value));
    call_special(capture, object, method_name, std::move(args));
    return;
  }
  if (method) capture.guard_class_attribute(type, interned(method_name).get(), method);
  if (PyList_Check(object) || guards::is_plain_deque(object)) {
    const PyRef place = as_index(capture, key);
    key = place.get();
    if (!is_guardable_constant(key) && !PySlice_Check(key))
      capture.stop(BreakReason::Value, fmt::format("a {} is an index", Py_TYPE(key)->tp_name));
    capture.guard_length(object);
    if (guards::is_plain_deque(object)) capture.appended.try_emplace(object).first->second.reset();
    PyRef items = value && PySlice_Check(key) ? checked(PySequence_List(get_iterator(capture, value).get())) : PyRef();
    capture.before_write(object);
    const Source* list = value && PyLong_CheckExact(key) ? capture.source_of(object) : nullptr;
    if (const Py_ssize_t at = list ? PyLong_AsSsize_t(key) : -1; list) {
      PyErr_Clear();
      PyObject* before = capture.journal.original(object);
      const Py_ssize_t place = at < 0 ? at + PyList_GET_SIZE(before) : at;
      if (place >= 0 && place < PyList_GET_SIZE(before))
        guard_same(capture, capture.sources.item(list, place), PyList_GET_ITEM(before, place), value);
    }
    python::check(
        (value ? PyObject_SetItem(object, key, items ? items.get() : value) : PyObject_DelItem(object, key)) == 0);
    return;
  }
  if (PyDict_Check(object)) {
    watch_key(capture, object, key);
    const Source* source = capture.source_of(object);
    if (source && !is_guardable_constant(key)) capture.consult(object);
    if (source && !value && is_guardable_constant(key)) {
      PyObject* there = PyDict_GetItemWithError(object, key);
      if (there)
        capture.guard_present(object, source, key);
      else
        capture.guard_absent(object, source, key);
    }
    capture.before_write(object);
    guard_same(capture, object, key, value);
    return really();
  }
  capture.settle_deep(value);
  if (is_python_class(type) || (capture.is_made(object) && !PyType_Check(object))) return really();
  capture.stop(BreakReason::Write, fmt::format("an item assignment to a {}", type->tp_name));
}

}  // namespace firesteel::capture
