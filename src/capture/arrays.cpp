// Arrays of numpy: collected as inputs, wrapped for the code that is captured, and given back as arrays.
#include "capture/arrays.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "capture/capture.h"
#include "capture/inner_values.h"
#include "capture/wanted_inputs.h"
#include "guards/ambient.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

struct Rules {
  PyRef stand_in, array, dtype, number, value_of_number, from_array, from_read_only, lie_apart;
  std::unordered_map<PyObject*, PyRef> always, with_arrays;
  std::vector<PyRef> held;
};

// Guarded by the GIL; null: arrays are not followed.
Rules*& rules() {
  static Rules* current = nullptr;
  return current;
}

void fill(std::unordered_map<PyObject*, PyRef>& table, std::vector<PyRef>& held, PyObject* given) {
  Py_ssize_t position = 0;
  PyObject *function = nullptr, *ours = nullptr;
  while (PyDict_Next(given, &position, &function, &ours)) {
    held.push_back(PyRef::borrow(function));
    table.emplace(function, PyRef::borrow(ours));
  }
}

bool is_array(PyObject* value) {
  return rules() && reinterpret_cast<PyObject*>(Py_TYPE(value)) == rules()->array.get();
}

bool is_writable(PyObject* array) {
  PyRef flags = checked(PyObject_GetAttrString(array, "flags"));
  return checked(PyObject_GetAttrString(flags.get(), "writeable")).get() == Py_True;
}

// What makes the tensor over an array's memory. Of one that must not be written to there is a tensor over a copy.
PyObject* maker_for(PyObject* array) {
  return (is_writable(array) ? rules()->from_array : rules()->from_read_only).get();
}

// Empty where torch knows no such array.
PyRef tensor_of(PyObject* array) {
  PyRef tensor = PyRef::steal(PyObject_CallOneArg(maker_for(array), array));
  if (!tensor) PyErr_Clear();  // a dtype or strides that torch does not have
  return tensor;
}

bool is_of_array(const Source* source) {
  if (!source || source->kind != AccessKind::Computed) return false;
  return source->key.get() == rules()->from_array.get() || source->key.get() == rules()->from_read_only.get();
}

bool is_stand_in_deep(PyObject* value) {
  if (is_array_stand_in(value)) return true;
  if (!PyList_CheckExact(value) && !PyTuple_CheckExact(value)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
    if (is_array_stand_in(PySequence_Fast_GET_ITEM(value, i))) return true;
  }
  return false;
}

// One object for one array, as long as somebody has it.
PyRef wrapped_once(Capture& capture, PyObject* tensor) {
  static auto* known = new std::unordered_map<PyObject*, PyRef>;  // weak references
  constexpr size_t kMany = 64;
  if (auto found = known->find(tensor); found != known->end()) {
    PyObject* object = PyWeakref_GET_OBJECT(found->second.get());
    PyRef held = object == Py_None ? PyRef() : python::attribute(object, "tensor");
    if (held.get() == tensor) return PyRef::borrow(object);
  }
  PyRef made;
  {
    Suspended suspended(capture);
    made = checked(PyObject_CallOneArg(rules()->stand_in.get(), tensor));
  }
  if (known->size() > kMany) known->clear();
  (*known)[tensor] = checked(PyWeakref_NewRef(made.get(), nullptr));
  return capture.made(std::move(made));
}

}  // namespace

void set_array_rules(PyObject* stand_in, PyObject* always, PyObject* with_arrays) {
  Rules* before = rules();
  rules() = nullptr;
  delete before;
  guards::change_controls();
  if (stand_in == Py_None) return;
  auto made = std::make_unique<Rules>();
  made->stand_in = PyRef::borrow(stand_in);
  PyRef numpy = checked(PyImport_ImportModule("numpy"));
  made->array = checked(PyObject_GetAttrString(numpy.get(), "ndarray"));
  made->dtype = checked(PyObject_GetAttrString(numpy.get(), "dtype"));
  made->number = checked(PyObject_GetAttrString(numpy.get(), "number"));
  made->value_of_number = checked(PyObject_GetAttrString(made->number.get(), "item"));
  PyRef own = checked(PyImport_ImportModule("firesteel._C"));
  made->lie_apart = checked(PyObject_GetAttrString(own.get(), "_lie_apart"));
  made->from_array = checked(PyObject_GetAttrString(own.get(), "_tensor_of_writable"));
  made->from_read_only = checked(PyObject_GetAttrString(own.get(), "_tensor_of_read_only"));
  fill(made->always, made->held, always);
  fill(made->with_arrays, made->held, with_arrays);
  rules() = made.release();
}

bool collect_array(Capture& capture, PyObject* value, const Source* source) {
  if (!is_array(value)) return false;
  PyRef tensor = tensor_of(value);
  if (!tensor || !guards::is_plain_real(python::unpack(tensor.get()))) return false;
  capture.add_guard({GuardKind::Type, source, rules()->array});
  capture.add_argument(tensor.get(), capture.sources.computed(maker_for(value), source, nullptr));
  return true;
}

bool lie_apart(const at::Tensor& one, const at::Tensor& other) {
  if (!one.has_storage() || !other.has_storage()) return true;  // a sparse tensor has parts of its own
  auto range = [](const at::Tensor& tensor) {
    const auto* begin = static_cast<const char*>(tensor.storage().data());
    return std::pair(begin, begin + tensor.storage().nbytes());
  };
  const auto [begin, end] = range(one);
  const auto [other_begin, other_end] = range(other);
  return end <= other_begin || other_end <= begin;
}

namespace {

// False where they share memory, which torch knows nothing of; else that they do not is guarded.
bool keep_apart(Capture& capture, const at::Tensor& one, const Source* at, const at::Tensor& other,
                const Source* other_at) {
  if (!lie_apart(one, other)) return false;
  capture.add_guard(
      {GuardKind::Constant, capture.sources.computed(rules()->lie_apart.get(), at, other_at), PyRef::borrow(Py_True)});
  return true;
}

}  // namespace

void keep_arrays_apart(Capture& capture) {
  if (!rules()) return;
  std::vector<size_t> shared;
  for (size_t i = 0; i < capture.arguments.size(); ++i) {
    const Source* array = capture.input_sources[i];
    if (!is_of_array(array)) continue;
    for (size_t k = 0; k < capture.arguments.size(); ++k) {
      const Source* other = capture.input_sources[k];
      if (is_of_array(other) && k >= i) continue;
      if (keep_apart(capture, python::unpack(capture.arguments[i].get()), array,
                     python::unpack(capture.arguments[k].get()), other))
        continue;
      if (!is_of_array(other)) {
        shared.push_back(i);
        break;
      }
      capture.arrays_share_memory = true;
    }
  }
  // What is no input is not followed.
  for (auto i = shared.rbegin(); i != shared.rend(); ++i) {
    capture.arguments.erase(capture.arguments.begin() + static_cast<ptrdiff_t>(*i));
    capture.input_sources.erase(capture.input_sources.begin() + static_cast<ptrdiff_t>(*i));
  }
}

void keep_from_arrays(Capture& capture, PyObject* tensor, const Source* source) {
  if (!rules()) return;
  for (size_t i = 0; i < capture.arguments.size() && i < capture.input_sources.size(); ++i) {
    const Source* array = capture.input_sources[i];
    if (is_of_array(array) &&
        !keep_apart(capture, python::unpack(capture.arguments[i].get()), array, python::unpack(tensor), source))
      capture.stop(BreakReason::Numpy, "an array from outside shares memory with a tensor");
  }
}

PyRef write_to_array(Capture& capture, PyObject*, CallArgs&) {
  if (capture.arrays_share_memory)
    capture.stop(BreakReason::Numpy, "one of two arrays from outside that share memory is written to");
  const bool any_read_only = std::any_of(
      capture.input_sources.begin(), capture.input_sources.end(),
      [](const Source* source) { return is_of_array(source) && source->key.get() == rules()->from_read_only.get(); });
  if (any_read_only) capture.stop(BreakReason::Numpy, "an array is written to, and one from outside is read-only");
  return PyRef::borrow(Py_None);
}

PyRef array_at(Capture& capture, PyObject* value, const Source* source) {
  if (!is_array(value)) return {};
  const Source* tensor = capture.sources.computed(maker_for(value), source, nullptr);
  for (size_t i = 0; i < capture.arguments.size() && i < capture.input_sources.size(); ++i) {
    if (capture.input_sources[i] == tensor)
      return wrapped_once(capture, capture.admit(capture.arguments[i].get(), tensor).get());
  }
  // One of a global or an attribute is known once something has read it: then it is an input as well.
  if (tensor_of(value) && WantedInputs::add(source))
    capture.stop(BreakReason::Numpy, "an array from outside shares memory with a tensor, or is none that torch takes");
  return {};
}

bool is_array_stand_in(PyObject* value) {
  return rules() && reinterpret_cast<PyObject*>(Py_TYPE(value)) == rules()->stand_in.get();
}

PyRef place_with_tensors(PyObject* place) {
  if (is_array_stand_in(place)) return checked(PyObject_GetAttrString(place, "tensor"));
  if (!PyTuple_CheckExact(place)) return PyRef::borrow(place);
  PyRef items = checked(PyTuple_New(PyTuple_GET_SIZE(place)));
  bool changed = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(place); ++i) {
    PyObject* item = PyTuple_GET_ITEM(place, i);
    changed = changed || is_array_stand_in(item);
    PyTuple_SET_ITEM(items.get(), i, is_array_stand_in(item) ? place_with_tensors(item).release() : Py_NewRef(item));
  }
  return changed ? items : PyRef::borrow(place);
}

bool is_array_dtype(PyObject* value) {
  return rules() && PyObject_TypeCheck(value, reinterpret_cast<PyTypeObject*>(rules()->dtype.get()));
}

bool is_dtype_fact(PyObject* dtype, PyObject* name) {
  constexpr std::string_view kFacts[] = {"alignment", "byteorder", "char", "hasobject", "isbuiltin", "isnative",
                                         "itemsize",  "kind",      "name", "ndim",      "num",       "str"};
  return is_array_dtype(dtype) &&
         std::find(std::begin(kFacts), std::end(kFacts), python::text_of(name)) != std::end(kFacts);
}

bool is_array_number(PyObject* value) {
  if (!rules() || !PyObject_TypeCheck(value, reinterpret_cast<PyTypeObject*>(rules()->number.get()))) return false;
  if (std::string_view(Py_TYPE(value)->tp_name).substr(0, 6) != "numpy.") return false;  // a class of the program's
  const PyRef plain = checked(PyObject_CallOneArg(rules()->value_of_number.get(), value));
  return PyLong_CheckExact(plain.get()) || PyFloat_CheckExact(plain.get());
}

namespace {

// An int or float of a class of the program's own, which counts as what it is.
PyRef plain_number(PyObject* value) {
  const auto* methods = Py_TYPE(value)->tp_as_number;
  const bool counts_as_it_is = (PyLong_Check(value) && methods->nb_int == PyLong_Type.tp_as_number->nb_int &&
                                methods->nb_index == PyLong_Type.tp_as_number->nb_index) ||
                               (PyFloat_Check(value) && methods->nb_float == PyFloat_Type.tp_as_number->nb_float);
  PyObject* form =
      counts_as_it_is && !PyBool_Check(value) && !python::is_enum_member(value) ? plain_form(value) : nullptr;
  return form ? checked(PyObject_CallOneArg(form, value)) : PyRef();
}

}  // namespace

PyRef with_plain_numbers(PyObject* nested) {
  if (PyRef plain = plain_number(nested)) return plain;
  if (is_array_number(nested)) return checked(PyObject_CallOneArg(rules()->value_of_number.get(), nested));
  const bool is_tuple = PyTuple_CheckExact(nested), is_list = PyList_CheckExact(nested);
  PyRef changed;
  if (is_tuple || is_list) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(nested); ++i) {
      PyRef plain = with_plain_numbers(PySequence_Fast_GET_ITEM(nested, i));
      if (!plain) continue;
      if (!changed) changed = checked(PySequence_List(nested));
      python::check(PyList_SetItem(changed.get(), i, plain.release()) == 0);
    }
    return changed && is_tuple ? checked(PyList_AsTuple(changed.get())) : changed;
  }
  if (PySlice_Check(nested)) {
    auto* slice = reinterpret_cast<PySliceObject*>(nested);
    PyRef parts = checked(PyTuple_Pack(3, slice->start, slice->stop, slice->step));
    PyRef plain = with_plain_numbers(parts.get());
    return plain ? checked(PyObject_CallObject(reinterpret_cast<PyObject*>(&PySlice_Type), plain.get())) : PyRef();
  }
  if (!PyDict_CheckExact(nested)) return {};
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(nested, &position, &key, &value)) {
    PyRef plain = with_plain_numbers(value);
    if (!plain) continue;
    if (!changed) changed = checked(PyDict_Copy(nested));
    python::check(PyDict_SetItem(changed.get(), key, plain.get()) == 0);
  }
  return changed;
}

void guard_array_number(Capture& capture, PyObject* value, const Source* source) {
  const PyRef plain = checked(PyObject_CallOneArg(rules()->value_of_number.get(), value));
  capture.add_guard(
      {GuardKind::Constant, capture.sources.computed(rules()->value_of_number.get(), source, nullptr), PyRef(plain)});
}

bool is_array_stand_in_class(PyObject* type) { return rules() && type == rules()->stand_in.get(); }

PyTypeObject* array_type() { return rules() ? reinterpret_cast<PyTypeObject*>(rules()->array.get()) : nullptr; }

const Source* array_source(Capture& capture, PyObject* stand_in) {
  PyRef tensor = python::attribute(stand_in, "tensor");
  const Source* source = tensor && python::is_tensor(tensor.get()) ? capture.tensor_source(tensor.get()) : nullptr;
  return is_of_array(source) ? source->parent : nullptr;
}

PyObject* array_function(PyObject* callable, const CallArgs& args) {
  if (!rules()) return nullptr;
  if (auto found = rules()->always.find(callable); found != rules()->always.end()) return found->second.get();
  auto found = rules()->with_arrays.find(callable);
  if (found == rules()->with_arrays.end()) return nullptr;
  const bool given = std::any_of(args.values.begin(), args.values.end(),
                                 [](const PyRef& value) { return is_stand_in_deep(value.get()); });
  return given ? found->second.get() : nullptr;
}

}  // namespace firesteel::capture
