// Interning and walking of access paths.
#include "guards/source.h"

#include <fmt/format.h>
#include <structmember.h>

#include "capture/cpython/frame_shim.h"
#include "guards/holdings.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::guards {

size_t SourceTable::Hash::operator()(const Key& key) const {
  size_t hash = reinterpret_cast<size_t>(key.parent) * 31 + static_cast<size_t>(key.kind);
  hash = hash * 1000003 ^ static_cast<size_t>(key.index);
  hash = hash * 1000003 ^ (reinterpret_cast<size_t>(key.second) >> 4);
  return hash * 1000003 ^ (reinterpret_cast<size_t>(key.key) >> 4);
}

const Source* SourceTable::intern(const Source* parent, AccessKind kind, PyObject* key, int64_t index, std::string name,
                                  const Source* second) {
  PyRef held = PyRef::borrow(key);
  if (key && kind == AccessKind::DictItem) {
    if (!keys_) keys_ = python::checked(PyDict_New());
    // 1, 1.0 and True are one key of a dict, as they are here.
    PyObject* known = PyDict_SetDefault(keys_.get(), key, key);
    if (!known) python::throw_python_error();
    held = PyRef::borrow(known);
  }
  auto [found, is_new] = known_.try_emplace(Key{parent, kind, index, held.get(), second}, nullptr);
  if (is_new) {
    const auto slot = static_cast<uint32_t>(sources_.size());
    sources_.push_back(Source{kind, slot, parent, std::move(held), index, std::move(name), second});
    found->second = &sources_.back();
  }
  return found->second;
}

const Source* SourceTable::argument(int64_t index, std::string name) {
  return intern(nullptr, AccessKind::Argument, nullptr, index, std::move(name));
}
const Source* SourceTable::function(std::string name) {
  return intern(nullptr, AccessKind::Function, nullptr, 0, std::move(name));
}
const Source* SourceTable::pinned(PyObject* object, std::string name) {
  return intern(nullptr, AccessKind::Pinned, object, 0, std::move(name));
}
const Source* SourceTable::kept(PyObject* object, std::string name) {
  return intern(nullptr, AccessKind::Kept, object, 0, std::move(name));
}
const Source* SourceTable::handled() { return intern(nullptr, AccessKind::Handled, nullptr, 0, "sys.exc_info()[1]"); }
const Source* SourceTable::item(const Source* dict, PyObject* key) {
  return intern(dict, AccessKind::DictItem, key, 0, {});
}
const Source* SourceTable::tensor_item(const Source* dict, PyObject* tensor) {
  const PyRef address = python::checked(PyLong_FromVoidPtr(tensor));
  return intern(dict, AccessKind::TensorItem, tensor, PyObject_Hash(address.get()), {});
}
const Source* SourceTable::item(const Source* sequence, int64_t index) {
  return intern(sequence, AccessKind::SequenceItem, nullptr, index, {});
}
const Source* SourceTable::cell(const Source* closure, int64_t index, std::string name) {
  return intern(closure, AccessKind::SequenceItem, nullptr, index, std::move(name));
}
const Source* SourceTable::step(const Source* parent, AccessKind kind, PyObject* key) {
  return intern(parent, kind, key, 0, {});
}

const Source* SourceTable::computed(PyObject* function, const Source* first, const Source* second) {
  return intern(first, AccessKind::Computed, function, 0, {}, second);
}

const Source* SourceTable::size(const Source* tensor, int64_t dim) {
  return intern(tensor, AccessKind::Size, nullptr, dim, {});
}

const Source* SourceTable::at(const SourcePath& path) {
  const Source* source = nullptr;
  for (const SourceStep& step : path) source = intern(source, step.kind, step.key(), step.index, step.name);
  return source;
}

namespace {

// `(i + 1)`, `i < 10`, `math.cos(t)`.
std::string computed_text(const Source& source) {
  constexpr std::pair<std::string_view, const char*> kSigns[] = {
      {"add", "+"}, {"sub", "-"}, {"mul", "*"}, {"truediv", "/"}, {"floordiv", "//"}, {"mod", "%"}, {"pow", "**"},
      {"lt", "<"},  {"le", "<="}, {"eq", "=="}, {"ne", "!="},     {"gt", ">"},        {"ge", ">="}};
  PyRef name = python::attribute(source.key.get(), "__name__");
  std::string text = name ? std::string(python::text_of(name.get())) : python::spell(source.key.get());
  if (text.starts_with("__") && text.ends_with("__")) text = text.substr(2, text.size() - 4);  // int.__int__
  const std::string first = source.parent->str();
  if (!source.second) return fmt::format("{}({})", text, first);
  for (const auto& [word, sign] : kSigns) {
    if (text == word || (text[0] == 'i' && text.substr(1) == word))
      return fmt::format("({} {} {})", first, sign, source.second->str());
  }
  return fmt::format("{}({}, {})", text, first, source.second->str());
}

}  // namespace
SourceStep::SourceStep(AccessKind kind, PyObject* key, int64_t index, std::string name)
    : kind(kind), index(index), name(std::move(name)), key_(PyRef::borrow(key)) {
  if (!key || kind == AccessKind::Kept || !Holdings::is_weak(key)) return;
  PyRef reference = PyRef::steal(PyWeakref_NewRef(key, nullptr));
  weak_ = static_cast<bool>(reference);
  if (weak_) key_ = std::move(reference);
  PyErr_Clear();
}

SourceStep SourceStep::size(int64_t dim, int64_t before) {
  SourceStep step(AccessKind::Size, nullptr, dim, "");
  step.before = before;
  return step;
}

PyObject* SourceStep::key() const {
  if (!weak_) return key_.get();
  PyObject* object = PyWeakref_GET_OBJECT(key_.get());
  return object == Py_None ? nullptr : object;
}

bool SourceStep::lost() const { return key_ && !key(); }

std::string Source::str() const {
  switch (kind) {
    case AccessKind::Argument:
    case AccessKind::Function:
    case AccessKind::Pinned:
    case AccessKind::Kept:
    case AccessKind::Handled:
      return name;
    case AccessKind::DictItem: {
      const std::string_view word = python::text_of(key.get());
      if (parent->kind == AccessKind::InstanceDict) return fmt::format("{}.{}", parent->parent->str(), word);
      // Globals and builtins are pinned dicts without a name of their own.
      const bool variable =
          parent->kind == AccessKind::FunctionGlobals || (parent->is_object() && parent->name.empty());
      if (variable) return std::string(word);
      return fmt::format("{}[{}]", parent->str(), python::spell(key.get()));
    }
    case AccessKind::TensorItem:
      return fmt::format("{}[<a tensor>]", parent->str());
    case AccessKind::SequenceItem:
      return fmt::format("{}[{}]", parent->str(), index);
    case AccessKind::InstanceDict:
      return parent->str() + ".__dict__";
    case AccessKind::Member:
      return fmt::format("{}.{}", parent->str(), python::text_of(reinterpret_cast<PyDescrObject*>(key.get())->d_name));
    case AccessKind::CellContents:
      if (parent->is_object()) return parent->name;
      if (parent->kind == AccessKind::SequenceItem && !parent->name.empty())
        return fmt::format("{} in the closure of {}", parent->name, parent->parent->parent->str());
      return parent->str() + ".cell_contents";
    case AccessKind::FunctionDefaults:
      return parent->str() + ".__defaults__";
    case AccessKind::FunctionKwDefaults:
      return parent->str() + ".__kwdefaults__";
    case AccessKind::FunctionClosure:
      return parent->str() + ".__closure__";
    case AccessKind::FunctionGlobals:
      return parent->str() + ".__globals__";
    case AccessKind::Name:
      return parent->str() + ".__name__";
    case AccessKind::Qualname:
      return parent->str() + ".__qualname__";
    case AccessKind::FunctionModule:
      return parent->str() + ".__module__";
    case AccessKind::FunctionDoc:
      return parent->str() + ".__doc__";
    case AccessKind::MethodFunction:
      return parent->str() + ".__func__";
    case AccessKind::MethodSelf:
      return parent->str() + ".__self__";
    case AccessKind::Referent:
      return parent->str() + "()";
    case AccessKind::Grad:
      return parent->str() + ".grad";
    case AccessKind::Size:
      return fmt::format("{}.shape[{}]", parent->str(), index);
    case AccessKind::Computed:
      return computed_text(*this);
  }
  return "?";
}

bool is_plain_deque(PyObject* object) {
  static auto* type = reinterpret_cast<PyTypeObject*>(
      python::checked(PyObject_GetAttrString(python::checked(PyImport_ImportModule("collections")).get(), "deque"))
          .release());
  return Py_IS_TYPE(object, type);
}

PyObject* slice_member(size_t number) {
  static const char* const names[] = {"start", "stop", "step"};
  return PyDict_GetItemString(PySlice_Type.tp_dict, names[number]);
}

uint64_t dict_version(PyObject* value) {
#if PY_VERSION_HEX < 0x030D0000
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  if (PyDict_CheckExact(value)) return reinterpret_cast<PyDictObject*>(value)->ma_version_tag;
#pragma GCC diagnostic pop
#endif
  return 0;
}

PyObject* instance_dict(PyObject* object) { return fs_instance_dict(object); }

namespace {

PyObject* dict_item(PyObject* dict, PyObject* key) {
  if (!PyDict_Check(dict)) return nullptr;
  PyObject* value = PyDict_GetItemWithError(dict, key);
  if (!value && PyErr_Occurred()) PyErr_Clear();
  return value;
}

PyObject* tensor_item(PyObject* dict, PyObject* tensor, Py_hash_t hash) {
  if (!PyDict_Check(dict)) return nullptr;
  PyObject* value = _PyDict_GetItem_KnownHash(dict, tensor, hash);
  if (!value && PyErr_Occurred()) PyErr_Clear();
  return value;
}

PyObject* sequence_item(PyObject* sequence, int64_t index) {
  if (is_plain_deque(sequence)) {
    // The deque keeps it.
    PyRef item = index < Py_SIZE(sequence) ? PyRef::steal(PySequence_GetItem(sequence, index)) : PyRef();
    if (!item) PyErr_Clear();
    return item.get();
  }
  if (!PyList_Check(sequence) && !PyTuple_Check(sequence)) return nullptr;
  return index < PySequence_Fast_GET_SIZE(sequence) ? PySequence_Fast_GET_ITEM(sequence, index) : nullptr;
}

// Reads the slot itself: the descriptor's getter would make a new reference.
PyObject* member(PyObject* object, PyObject* descriptor) {
  auto* found = reinterpret_cast<PyMemberDescrObject*>(descriptor);
  if (!PyObject_TypeCheck(object, found->d_common.d_type)) return nullptr;
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + found->d_member->offset);
}

// The tensor keeps the object of its gradient as long as it keeps the gradient.
PyObject* gradient(PyObject* tensor) {
  if (!python::is_tensor(tensor)) return nullptr;
  const at::Tensor& found = python::unpack(tensor).unsafeGetTensorImpl()->grad();
  return found.defined() ? python::wrap(found).get() : Py_None;
}

PyObject* or_none(PyObject* value) { return value ? value : Py_None; }

PyFunctionObject* function(PyObject* object) {
  return PyFunction_Check(object) ? reinterpret_cast<PyFunctionObject*>(object) : nullptr;
}

// Of a C class the name is no object.
PyHeapTypeObject* python_class(PyObject* object) {
  const bool is_one =
      PyType_Check(object) && PyType_HasFeature(reinterpret_cast<PyTypeObject*>(object), Py_TPFLAGS_HEAPTYPE);
  return is_one ? reinterpret_cast<PyHeapTypeObject*>(object) : nullptr;
}

}  // namespace

PyObject* follow(AccessKind kind, PyObject* from, PyObject* key, int64_t index) {
  if (kind == AccessKind::Pinned || kind == AccessKind::Kept) return key;
  if (kind == AccessKind::Handled) {
    PyRef exception = PyRef::steal(PyErr_GetHandledException());  // who handles it keeps it
    return exception ? exception.get() : Py_None;
  }
  if (!from) return nullptr;
  switch (kind) {
    case AccessKind::Argument:
    case AccessKind::Function:
    case AccessKind::Pinned:
    case AccessKind::Computed:
    case AccessKind::Kept:
    case AccessKind::Handled:
      return nullptr;
    case AccessKind::DictItem:
      return dict_item(from, key);
    case AccessKind::TensorItem:
      return tensor_item(from, key, index);
    case AccessKind::SequenceItem:
      return sequence_item(from, index);
    case AccessKind::InstanceDict:
      return instance_dict(from);
    case AccessKind::Member:
      return member(from, key);
    case AccessKind::CellContents:
      return PyCell_Check(from) ? PyCell_GET(from) : nullptr;
    case AccessKind::FunctionDefaults:
      return function(from) ? function(from)->func_defaults : nullptr;
    case AccessKind::FunctionKwDefaults:
      return function(from) ? function(from)->func_kwdefaults : nullptr;
    case AccessKind::FunctionClosure:
      return function(from) ? function(from)->func_closure : nullptr;
    case AccessKind::FunctionGlobals:
      return function(from) ? function(from)->func_globals : nullptr;
    case AccessKind::Name:
      if (python_class(from)) return python_class(from)->ht_name;
      return function(from) ? function(from)->func_name : nullptr;
    case AccessKind::Qualname:
      if (python_class(from)) return python_class(from)->ht_qualname;
      return function(from) ? function(from)->func_qualname : nullptr;
    case AccessKind::FunctionModule:
      return function(from) ? or_none(function(from)->func_module) : nullptr;
    case AccessKind::FunctionDoc:
      return function(from) ? or_none(function(from)->func_doc) : nullptr;
    case AccessKind::MethodFunction:
      return PyMethod_Check(from) ? PyMethod_GET_FUNCTION(from) : nullptr;
    case AccessKind::MethodSelf:
      if (PyCFunction_Check(from)) return PyCFunction_GET_SELF(from);
      return PyMethod_Check(from) ? PyMethod_GET_SELF(from) : nullptr;
    case AccessKind::Referent:
      return PyWeakref_Check(from) ? PyWeakref_GET_OBJECT(from) : nullptr;
    case AccessKind::ViewedDict:
      return fs_view_dict(from);
    case AccessKind::Size:
      break;  // a number that is made anew each time
    case AccessKind::Grad:
      return gradient(from);
  }
  return nullptr;
}

}  // namespace firesteel::guards
