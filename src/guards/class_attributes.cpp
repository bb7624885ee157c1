// Comparing what a class has with what it had, without holding it.
#include "guards/class_attributes.h"

#include <algorithm>

#include "python/errors.h"

namespace firesteel::guards {
namespace {

// How the parts of an object of a builtin class are read; none of it runs Python code.
std::vector<const char*> part_names(PyTypeObject* kind) {
  if (kind == &PyProperty_Type) return {"fget", "fset", "fdel"};
  if (kind == &PyStaticMethod_Type || kind == &PyClassMethod_Type) return {"__func__"};
  const bool of_class = kind == &PyMemberDescr_Type || kind == &PyGetSetDescr_Type;
  return of_class ? std::vector<const char*>{"__objclass__", "__name__"} : std::vector<const char*>{};
}

}  // namespace

std::vector<PyRef> WatchedClass::parts_of(PyObject* value) {
  std::vector<PyRef> parts;
  for (const char* name : part_names(Py_TYPE(value))) {
    PyRef part = python::attribute(value, name);
    if (!part) return {};
    parts.push_back(std::move(part));
  }
  return parts;
}

WatchedClass::WatchedClass(const ClassAttributes& attributes, Holdings& holdings)
    : type_(reinterpret_cast<PyTypeObject*>(holdings.hold(attributes.type.get()))), bases_(bases_now()) {
  for (PyObject* base : bases_) holdings.hold(base);
  for (const auto& [name, value] : attributes.found) {
    Found& found = found_.emplace_back();
    found.name = holdings.keep(name.get());
    found.value = value.get();
    found.kind = value ? Py_TYPE(value.get()) : nullptr;
    if (!value) continue;
    for (const PyRef& part : parts_of(value.get())) found.parts.push_back(holdings.hold(part.get()));
    if (found.parts.empty()) holdings.hold(value.get());
  }
}

std::vector<PyObject*> WatchedClass::bases_now() const {
  PyObject* const* items = reinterpret_cast<PyTupleObject*>(type_->tp_mro)->ob_item;
  return {items, items + PyTuple_GET_SIZE(type_->tp_mro)};
}

// Another object at the same address is as good if it has the same class and parts.
bool WatchedClass::is_same(const Found& found) const {
  PyObject* now = _PyType_Lookup(type_, found.name);
  if (now != found.value) return false;
  if (found.parts.empty()) return true;
  if (Py_TYPE(now) != found.kind) return false;
  const std::vector<PyRef> parts = parts_of(now);
  return std::equal(parts.begin(), parts.end(), found.parts.begin(), found.parts.end(),
                    [](const PyRef& part, PyObject* then) { return part.get() == then; });
}

bool WatchedClass::unchanged() const {
  if (version_ != 0 && type_->tp_version_tag == version_) return true;
  if (bases_now() != bases_) return false;
  if (!std::all_of(found_.begin(), found_.end(), [&](const Found& found) { return is_same(found); })) return false;
  version_ = type_->tp_version_tag;
  return true;
}

std::string WatchedClass::changed_name() const {
  if (bases_now() != bases_) return "its bases";
  for (const Found& found : found_) {
    if (!is_same(found)) return std::string(python::text_of(found.name));
  }
  return {};
}

}  // namespace firesteel::guards
