// One row a kind of container: list, tuple, dict and its relatives, deque, named tuples, and torch's registry.
#include "python/pytree_nodes.h"

#include <fmt/format.h>

#include "python/constants.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::python {
namespace {

std::string index_step(PyObject*, PyObject*, size_t index) { return fmt::format("[{}]", index); }

std::string field_step(PyObject* object, PyObject*, size_t index) {
  PyRef fields = attribute(object, "_fields");
  if (!fields || !PyTuple_Check(fields.get()) || static_cast<Py_ssize_t>(index) >= PyTuple_GET_SIZE(fields.get())) {
    return index_step(object, nullptr, index);
  }
  return fmt::format(".{}", text_of(PyTuple_GET_ITEM(fields.get(), static_cast<Py_ssize_t>(index))));
}

void append_items(PyObject* sequence, Parts& parts) {
  PyRef items = checked(PySequence_Tuple(sequence));
  const Py_ssize_t count = PyTuple_GET_SIZE(items.get());
  parts.children.reserve(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) parts.children.push_back(PyRef::borrow(PyTuple_GET_ITEM(items.get(), i)));
}

bool take_sequence(PyObject* object, Parts& parts, std::string&) {
  append_items(object, parts);
  return true;
}

PyRef build_list(PyObject*, PyObject*, const PyRef& children) { return checked(PySequence_List(children.get())); }
PyRef build_tuple(PyObject*, PyObject*, const PyRef& children) { return children; }

// Dicts: the context is the tuple of keys; for a defaultdict the factory comes first.
bool take_dict(PyObject* object, Parts& parts, std::string&) {
  PyRef keys = checked(PyDict_Keys(object));
  parts.context = checked(PySequence_Tuple(keys.get()));
  PyRef values = checked(PyDict_Values(object));
  append_items(values.get(), parts);
  return true;
}

std::string dict_step(PyObject*, PyObject* keys, size_t index) {
  return key_step(PyTuple_GET_ITEM(keys, static_cast<Py_ssize_t>(index)));
}

void fill(PyObject* dict, PyObject* keys, Py_ssize_t first_key, PyObject* children) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(children); ++i) {
    check(PyObject_SetItem(dict, PyTuple_GET_ITEM(keys, first_key + i), PyTuple_GET_ITEM(children, i)) == 0);
  }
}

PyRef build_dict(PyObject*, PyObject* keys, const PyRef& children) {
  PyRef dict = checked(PyDict_New());
  fill(dict.get(), keys, 0, children.get());
  return dict;
}

PyRef build_ordered_dict(PyObject* type, PyObject* keys, const PyRef& children) {
  PyRef dict = checked(PyObject_CallNoArgs(type));
  fill(dict.get(), keys, 0, children.get());
  return dict;
}

bool take_default_dict(PyObject* object, Parts& parts, std::string& problem) {
  take_dict(object, parts, problem);
  PyRef factory = checked(PyObject_GetAttrString(object, "default_factory"));
  PyRef head = checked(PyTuple_Pack(1, factory.get()));
  parts.context = checked(PySequence_Concat(head.get(), parts.context.get()));
  return true;
}

std::string default_dict_step(PyObject*, PyObject* context, size_t index) {
  return key_step(PyTuple_GET_ITEM(context, static_cast<Py_ssize_t>(index) + 1));
}

PyRef build_default_dict(PyObject* type, PyObject* context, const PyRef& children) {
  PyRef dict = checked(PyObject_CallOneArg(type, PyTuple_GET_ITEM(context, 0)));
  fill(dict.get(), context, 1, children.get());
  return dict;
}

bool take_deque(PyObject* object, Parts& parts, std::string&) {
  append_items(object, parts);
  parts.context = checked(PyObject_GetAttrString(object, "maxlen"));
  return true;
}

PyRef build_deque(PyObject* type, PyObject* limit, const PyRef& children) {
  return checked(PyObject_CallFunctionObjArgs(type, children.get(), limit, nullptr));
}

// `_make` does not go through a constructor the class may have changed.
PyRef build_named_tuple(PyObject* type, PyObject*, const PyRef& children) {
  return checked(PyObject_CallMethod(type, "_make", "(O)", children.get()));
}

// Torch's results with names (`torch.return_types.max`): the type's members tell the names, in order.
std::string structseq_step(PyObject* object, PyObject*, size_t index) {
  PyRef names = attribute(object, "__match_args__");
  if (!names || !PyTuple_Check(names.get()) || static_cast<Py_ssize_t>(index) >= PyTuple_GET_SIZE(names.get())) {
    return index_step(object, nullptr, index);
  }
  return fmt::format(".{}", text_of(PyTuple_GET_ITEM(names.get(), static_cast<Py_ssize_t>(index))));
}

PyRef build_structseq(PyObject* type, PyObject*, const PyRef& children) {
  return checked(PyObject_CallOneArg(type, children.get()));
}

// Classes registered with torch.utils._pytree: a NodeDef holds their functions.
PyObject* registry() {
  static PyObject* nodes = [] {
    PyRef module = checked(PyImport_ImportModule("torch.utils._pytree"));
    return checked(PyObject_GetAttrString(module.get(), "SUPPORTED_NODES")).release();
  }();
  return nodes;
}

// Classes whose objects are values, which PyTorch keeps apart from its pytree.
PyObject* value_types() {
  static PyObject* nodes = [] {
    PyRef module = checked(PyImport_ImportModule("firesteel._value_types"));
    return checked(PyObject_GetAttrString(module.get(), "NODES")).release();
  }();
  return nodes;
}

PyRef registered(PyObject* type) {
  PyRef found = PyRef::borrow(PyDict_GetItemWithError(registry(), type));
  if (!found && !PyErr_Occurred()) found = PyRef::borrow(PyDict_GetItemWithError(value_types(), type));
  if (!found && PyErr_Occurred()) PyErr_Clear();  // a metaclass whose hash raises is not in the registry
  return found;
}

bool take_registered(PyObject* object, Parts& parts, std::string& problem) {
  PyRef definition = registered(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  PyRef flatten = checked(PyObject_GetAttrString(definition.get(), "flatten_fn"));
  PyRef result = checked(PyObject_CallOneArg(flatten.get(), object));
  if (!PyTuple_Check(result.get()) || PyTuple_GET_SIZE(result.get()) != 2) {
    problem = fmt::format("the flatten function registered for {} returned {}, not a pair (children, context)",
                          Py_TYPE(object)->tp_name, spell(result.get()));
    return false;
  }
  PyObject* children = PyTuple_GET_ITEM(result.get(), 0);
  if (!PyList_Check(children) && !PyTuple_Check(children)) {
    problem = fmt::format("the flatten function registered for {} returned {} as children, not a list or tuple",
                          Py_TYPE(object)->tp_name, spell(children));
    return false;
  }
  append_items(children, parts);
  parts.context = PyRef::borrow(PyTuple_GET_ITEM(result.get(), 1));
  return true;
}

std::string registered_step(PyObject* object, PyObject*, size_t index) {
  ErrorAside aside;
  PyRef definition = registered(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  PyRef flatten = attribute(definition.get(), "flatten_with_keys_fn");
  PyRef result =
      PyRef::steal(flatten && flatten.get() != Py_None ? PyObject_CallOneArg(flatten.get(), object) : nullptr);
  PyRef pairs = PyRef::steal(result ? PySequence_GetItem(result.get(), 0) : nullptr);
  PyRef pair = PyRef::steal(pairs ? PySequence_GetItem(pairs.get(), static_cast<Py_ssize_t>(index)) : nullptr);
  PyRef key = PyRef::steal(pair ? PySequence_GetItem(pair.get(), 0) : nullptr);
  PyRef text = PyRef::steal(key ? PyObject_Str(key.get()) : nullptr);
  PyErr_Clear();
  return text ? std::string(text_of(text.get())) : fmt::format("[{}]", index);
}

PyRef build_registered(PyObject* type, PyObject* context, const PyRef& children) {
  PyRef definition = registered(type);
  FS_REQUIRE(definition, TraceError, "{} is no longer registered with torch.utils._pytree",
             reinterpret_cast<PyTypeObject*>(type)->tp_name);
  PyRef unflatten = checked(PyObject_GetAttrString(definition.get(), "unflatten_fn"));
  PyRef list = checked(PySequence_List(children.get()));
  return checked(PyObject_CallFunctionObjArgs(unflatten.get(), list.get(), context, nullptr));
}

const NodeKind kList = {"list", TreeKind::List, take_sequence, build_list, index_step};
const NodeKind kTuple = {"tuple", TreeKind::Tuple, take_sequence, build_tuple, index_step};
const NodeKind kDict = {"dict", TreeKind::Dict, take_dict, build_dict, dict_step};
const NodeKind kOrderedDict = {"OrderedDict", TreeKind::Custom, take_dict, build_ordered_dict, dict_step};
const NodeKind kDefaultDict = {"defaultdict", TreeKind::Custom, take_default_dict, build_default_dict,
                               default_dict_step};
const NodeKind kDeque = {"deque", TreeKind::Custom, take_deque, build_deque, index_step};
const NodeKind kNamedTuple = {"named tuple", TreeKind::Custom, take_sequence, build_named_tuple, field_step};
const NodeKind kStructSeq = {"named tuple", TreeKind::Custom, take_sequence, build_structseq, structseq_step};
// Only one that holds tensors; others are constants.
bool take_slice(PyObject* object, Parts& parts, std::string&) {
  auto* slice = reinterpret_cast<PySliceObject*>(object);
  for (PyObject* part : {slice->start, slice->stop, slice->step}) parts.children.push_back(PyRef::borrow(part));
  return true;
}
PyRef build_slice(PyObject*, PyObject*, const PyRef& children) {
  return checked(PySlice_New(PyTuple_GET_ITEM(children.get(), 0), PyTuple_GET_ITEM(children.get(), 1),
                             PyTuple_GET_ITEM(children.get(), 2)));
}
bool is_slice_of_tensors(PyObject* object) {
  if (!PySlice_Check(object)) return false;
  auto* slice = reinterpret_cast<PySliceObject*>(object);
  return is_tensor(slice->start) || is_tensor(slice->stop) || is_tensor(slice->step);
}

const NodeKind kSlice = {"slice", TreeKind::Custom, take_slice, build_slice, index_step};

PyRef build_size(PyObject*, PyObject*, const PyRef& children) {
  static PyObject* type = [] {
    PyRef module = checked(PyImport_ImportModule("torch"));
    return checked(PyObject_GetAttrString(module.get(), "Size")).release();
  }();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(children.get()); ++i) {
    // What stands for a size where a graph is built, and is none.
    if (!PyIndex_Check(PyTuple_GET_ITEM(children.get(), i))) return children;
  }
  return checked(PyObject_CallOneArg(type, children.get()));
}
const NodeKind kOpenSize = {"torch.Size", TreeKind::Custom, take_sequence, build_size, index_step};
const NodeKind kRegistered = {"registered class", TreeKind::Custom, take_registered, build_registered, registered_step};

bool is_named_tuple(PyTypeObject* type) {
  auto* object = reinterpret_cast<PyObject*>(type);
  PyRef fields = attribute(object, "_fields");
  PyRef make = attribute(object, "_make");
  return fields && PyTuple_Check(fields.get()) && make && PyCallable_Check(make.get());
}

// A C struct sequence counts its fields; a subclass of tuple written in Python does not.
bool is_struct_sequence(PyTypeObject* type) {
  return !(type->tp_flags & Py_TPFLAGS_BASETYPE) && attribute(reinterpret_cast<PyObject*>(type), "n_sequence_fields");
}

PyTypeObject* collections_type(const char* name) {
  PyRef module = checked(PyImport_ImportModule("collections"));
  return reinterpret_cast<PyTypeObject*>(checked(PyObject_GetAttrString(module.get(), name)).release());
}

}  // namespace

PyObject* open_size_type() {
  static PyObject* type =
      checked(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s(O){}", "Size", &PyTuple_Type))
          .release();
  return type;
}

const NodeKind* kind_of(PyObject* object) {
  if (is_slice_of_tensors(object)) return &kSlice;
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyList_Type) return &kList;
  if (type == &PyTuple_Type) return &kTuple;
  if (type == &PyDict_Type) return &kDict;
  static PyTypeObject* const ordered_dict = collections_type("OrderedDict");
  static PyTypeObject* const default_dict = collections_type("defaultdict");
  static PyTypeObject* const deque = collections_type("deque");
  if (type == ordered_dict) return &kOrderedDict;
  if (type == default_dict) return &kDefaultDict;
  if (type == deque) return &kDeque;
  if (reinterpret_cast<PyObject*>(type) == open_size_type()) return &kOpenSize;
  if (is_torch_constant(object)) return nullptr;  // torch registers its Size, as a tuple
  if (registered(reinterpret_cast<PyObject*>(type))) return &kRegistered;
  if (PyTuple_Check(object)) {
    if (is_named_tuple(type)) return &kNamedTuple;
    if (is_struct_sequence(type)) return &kStructSeq;
  }
  return nullptr;
}

std::string key_step(PyObject* key) {
  if (!PyUnicode_CheckExact(key)) return fmt::format("[{}]", spell(key));
  return fmt::format("[\"{}\"]", text_of(key));
}

}  // namespace firesteel::python
