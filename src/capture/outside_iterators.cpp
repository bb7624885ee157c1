// Reads where iterators stand, and makes their twins.
#include "capture/outside_iterators.h"

#include <algorithm>

#include "python/errors.h"
#include "python/no_collection.h"

namespace firesteel::capture {
namespace {

using python::check;
using python::checked;

thread_local OutsideIterators* t_current = nullptr;
thread_local int t_stepping = 0;  // twins that are being stepped, one by another

enum class Kind { None, Sequence, Range, Count, Enumerate, Zip };

PyTypeObject* count_type() {
  static auto* type = reinterpret_cast<PyTypeObject*>(
      checked(PyObject_GetAttrString(checked(PyImport_ImportModule("itertools")).get(), "count")).release());
  return type;
}

// As CPython lays it out. Its __reduce__ warns from 3.12 on.
struct Count {
  PyObject_HEAD Py_ssize_t number;  // or the largest there is, where `object` counts
  PyObject* object;
  PyObject* step;
};

PyRef state_of_count(PyObject* iterator) {
  auto* count = reinterpret_cast<Count*>(iterator);
  const bool is_object = count->number == PY_SSIZE_T_MAX && count->object;
  PyRef number = is_object ? PyRef::borrow(count->object) : checked(PyLong_FromSsize_t(count->number));
  return checked(PyTuple_Pack(2, number.get(), count->step));
}

Kind kind_of(PyObject* iterator) {
  PyTypeObject* type = Py_TYPE(iterator);
  if (type == &PyListIter_Type || type == &PyTupleIter_Type) return Kind::Sequence;
  if (type == &PyRangeIter_Type) return Kind::Range;
  if (type == &PyEnum_Type) return Kind::Enumerate;
  if (type == &PyZip_Type) return Kind::Zip;
  return type == count_type() && type->tp_basicsize == sizeof(Count) ? Kind::Count : Kind::None;
}

// One at its end: (None,). Sequences and ranges: (what it goes over, index). Count: (number, step). Enumerate: (number,
// iterator). Zip: (strict, iterators …).
PyRef read_state(PyObject* iterator) {
  const Kind kind = kind_of(iterator);
  if (kind == Kind::None) {
    PyErr_Format(PyExc_TypeError, "where a %.100s stands is not known", Py_TYPE(iterator)->tp_name);
    python::throw_python_error();
  }
  if (kind == Kind::Count) return state_of_count(iterator);
  PyRef parts = checked(PyObject_CallMethod(iterator, "__reduce__", nullptr));
  PyObject* args = PyTuple_GET_ITEM(parts.get(), 1);
  PyObject* more = PyTuple_GET_SIZE(parts.get()) > 2 ? PyTuple_GET_ITEM(parts.get(), 2) : nullptr;
  PyObject* first = PyTuple_GET_ITEM(args, 0);
  switch (kind) {
    case Kind::Sequence:
      return more ? checked(PyTuple_Pack(2, first, more)) : checked(PyTuple_Pack(1, Py_None));
    case Kind::Range:
      return checked(PyTuple_Pack(2, first, more ? more : Py_None));
    case Kind::Enumerate:
      return checked(PyTuple_Pack(2, PyTuple_GET_ITEM(args, 1), first));
    default: {
      PyRef strict = checked(PyTuple_Pack(1, more ? Py_True : Py_False));
      return checked(PySequence_Concat(strict.get(), args));
    }
  }
}

// For guards: no finalizer may run between their steps.
PyObject* where(PyObject*, PyObject* iterator) {
  const python::NoCollection no_collection;
  try {
    return read_state(iterator).release();
  } catch (...) {
    python::set_python_error_or_runtime_error(std::current_exception());
    return nullptr;
  }
}

PyObject* where_function() {
  static PyMethodDef definition = {"where", &where, METH_O, nullptr};
  static PyObject* function = checked(PyCFunction_New(&definition, nullptr)).release();
  return function;
}

struct Twin {
  PyObject_HEAD PyObject* original;
  PyObject* inner;
  std::shared_ptr<OutsideIterators::Steps> steps;
};

PyObject* step_twin(PyObject* self) {
  auto* twin = reinterpret_cast<Twin*>(self);
  if (t_stepping == 0) {  // an iterator that a zip goes over is stepped by the zip
    auto& steps = *twin->steps;
    if (steps.empty() || steps.back().first.get() != twin->original)
      steps.emplace_back(PyRef::borrow(twin->original), 0);
    ++steps.back().second;
  }
  ++t_stepping;
  PyObject* item = Py_TYPE(twin->inner)->tp_iternext(twin->inner);
  --t_stepping;
  return item;
}

void drop_twin(PyObject* self) {
  auto* twin = reinterpret_cast<Twin*>(self);
  Py_CLEAR(twin->original);
  Py_CLEAR(twin->inner);
  twin->steps.~shared_ptr();
  PyObject_Free(self);
}

PyTypeObject* twin_type() {
  static PyTypeObject* ready = [] {
    static PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
    type.tp_name = "firesteel.iterator";
    type.tp_basicsize = sizeof(Twin);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    type.tp_dealloc = &drop_twin;
    type.tp_iter = &PyObject_SelfIter;
    type.tp_iternext = &step_twin;
    check(PyType_Ready(&type) == 0);
    return &type;
  }();
  return ready;
}

PyRef new_twin(PyObject* original, PyRef inner, std::shared_ptr<OutsideIterators::Steps> steps) {
  PyRef made = checked(PyType_GenericAlloc(twin_type(), 0));
  auto* twin = reinterpret_cast<Twin*>(made.get());
  new (&twin->steps) std::shared_ptr<OutsideIterators::Steps>(std::move(steps));
  twin->original = Py_NewRef(original);
  twin->inner = inner.release();
  return made;
}

PyRef started(PyObject* iterable, PyObject* index) {
  PyRef iterator = checked(PyObject_GetIter(iterable));
  if (index != Py_None) checked(PyObject_CallMethod(iterator.get(), "__setstate__", "(O)", index));
  return iterator;
}

}  // namespace

OutsideIterators::OutsideIterators(Capture& capture) : capture_(capture), outer_(t_current) { t_current = this; }
OutsideIterators::~OutsideIterators() { t_current = outer_; }

bool OutsideIterators::is_twin(PyObject* object) { return Py_IS_TYPE(object, twin_type()); }

PyRef OutsideIterators::twin_of(Capture& capture, PyObject* iterator) {
  if (is_twin(iterator)) return PyRef::borrow(iterator);
  if (!t_current || &t_current->capture_ != &capture || capture.concrete || !capture.whole_stretches) return {};
  if (!capture.source_of(iterator) || capture.unrecorded) return {};
  for (const auto& [original, twin] : t_current->twins_) {
    if (original.get() == iterator) return twin;
  }
  PyRef inner = kind_of(iterator) == Kind::None ? PyRef() : t_current->make(iterator);
  if (!inner) return {};
  PyRef twin = new_twin(iterator, std::move(inner), t_current->steps_);
  // Where the twin is left behind, the iterator is.
  capture.remember(twin.get(), capture.source_of(iterator));
  t_current->twins_.emplace_back(PyRef::borrow(iterator), twin);
  return twin;
}

PyRef OutsideIterators::twin_at(PyObject* state, const Source* at, size_t index) {
  PyObject* inner = PyTuple_GET_ITEM(state, index);
  if (kind_of(inner) == Kind::None) return {};
  capture_.admit(inner, capture_.sources.item(at, static_cast<int64_t>(index)));
  return twin_of(capture_, inner);
}

// An iterator that will give what is still to come, with guards on where the other stands.
PyRef OutsideIterators::make(PyObject* iterator) {
  const Kind kind = kind_of(iterator);
  PyRef state = read_state(iterator);
  PyObject* first = PyTuple_GET_ITEM(state.get(), 0);
  const Source* at = capture_.sources.computed(where_function(), capture_.source_of(iterator), nullptr);
  Guard length{GuardKind::Length, at};
  length.number = PyTuple_GET_SIZE(state.get());
  capture_.add_guard(std::move(length));
  auto constant = [&](size_t index) {
    PyObject* value = PyTuple_GET_ITEM(state.get(), index);
    capture_.add_guard(
        {GuardKind::Constant, capture_.sources.item(at, static_cast<int64_t>(index)), PyRef::borrow(value)});
    return value;
  };
  switch (kind) {
    case Kind::Sequence: {
      if (PyTuple_GET_SIZE(state.get()) == 1) {
        constant(0);
        return checked(PyObject_GetIter(checked(PyTuple_New(0)).get()));
      }
      if (!is_sequence(first) || capture_.journal.touched(first)) return {};
      // A tuple of numbers is a constant: guarded by its items all the same.
      const Source* source = capture_.sources.item(at, int64_t{0});
      capture_.add_guard({GuardKind::Type, source, PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(first)))});
      capture_.remember(first, source);
      capture_.consult(first);
      lists_.push_back(first);
      return started(first, constant(1));
    }
    case Kind::Range:
      constant(0);
      return started(first, constant(1));
    case Kind::Count: {
      for (size_t i = 0; i < 2; ++i) {
        if (!is_number(PyTuple_GET_ITEM(state.get(), i))) return {};
        constant(i);
      }
      return checked(PyObject_Call(reinterpret_cast<PyObject*>(count_type()), state.get(), nullptr));
    }
    case Kind::Enumerate: {
      PyObject* number = constant(0);
      PyRef inner = twin_at(state.get(), at, 1);
      if (!inner) return {};
      return checked(
          PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PyEnum_Type), inner.get(), number, nullptr));
    }
    default: {
      const auto count = PyTuple_GET_SIZE(state.get()) - 1;
      if (constant(0) == Py_True) return {};  // its last step may raise an error
      PyRef args = checked(PyTuple_New(count));
      for (Py_ssize_t i = 0; i < count; ++i) {
        PyRef inner = twin_at(state.get(), at, static_cast<size_t>(i) + 1);
        if (!inner) return {};
        PyTuple_SET_ITEM(args.get(), i, inner.release());
      }
      return checked(PyObject_Call(reinterpret_cast<PyObject*>(&PyZip_Type), args.get(), nullptr));
    }
  }
}

bool OutsideIterators::goes_over(const Capture& capture, PyObject* list) {
  if (!t_current || &t_current->capture_ != &capture) return false;
  return std::find(t_current->lists_.begin(), t_current->lists_.end(), list) != t_current->lists_.end();
}

OutsideIterators::Steps OutsideIterators::steps(Capture& capture) {
  if (!t_current || &t_current->capture_ != &capture || t_current->steps_->empty()) return {};
  // Those that a zip goes over move with it.
  for (const auto& [iterator, twin] : t_current->twins_)
    capture.keep_apart(iterator.get(), capture.source_of(iterator.get()));
  return *t_current->steps_;
}

}  // namespace firesteel::capture
