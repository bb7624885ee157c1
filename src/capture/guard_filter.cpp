// Shows the guards of a piece to a Python function, and drops those that it does not want.
#include "capture/guard_filter.h"

#include <fmt/format.h>

#include "python/errors.h"

namespace firesteel::capture {
namespace {

using guards::AccessKind;
using guards::Guard;
using guards::GuardKind;
using guards::Source;
using python::checked;
using python::PyRef;

bool is_module(PyObject* value) {
  static PyObject* type =
      checked(PyObject_GetAttrString(checked(PyImport_ImportModule("torch.nn")).get(), "Module")).release();
  return PyType_IsSubtype(Py_TYPE(value), reinterpret_cast<PyTypeObject*>(type));
}

// The values along a source's path, as far as they are found again.
struct Walk {
  PyObject* value = nullptr;
  PyObject* module = nullptr;  // the last one on the way
  const Source* root = nullptr;
  const Source* global = nullptr;  // a variable of a module
};

// Whether it is a module's dict.
bool holds_globals(const Source* dict) {
  if (dict->kind == AccessKind::FunctionGlobals) return true;
  return dict->is_object() && PyDict_Check(dict->key.get()) && PyDict_GetItemString(dict->key.get(), "__builtins__");
}

Walk walk(const Source* source, const GuardRoots& roots) {
  Walk found;
  if (source->parent) {
    found = walk(source->parent, roots);
    if (source->kind == AccessKind::DictItem && !found.global && holds_globals(source->parent)) found.global = source;
    const bool computed = source->kind == AccessKind::Computed;
    found.value = found.value && !computed ? guards::follow(source->kind, found.value, source->key.get(), source->index)
                                           : nullptr;
  } else {
    found.root = source;
    switch (source->kind) {
      case AccessKind::Argument:
        found.value = roots.arguments[source->index];
        break;
      case AccessKind::Function:
        found.value = roots.function;
        break;
      default:
        found.value = source->is_object() ? source->key.get() : nullptr;
    }
  }
  if (found.value && is_module(found.value)) found.module = found.value;
  return found;
}

// As PyTorch writes it: `L['x'].weight`, `G['scale']`.
std::string path_of(const Source* source, const Walk& walked) {
  const Source* start = walked.global ? walked.global : walked.root;
  const std::string text = source->str(), first = start->str();
  const std::string rest = text.starts_with(first) ? text.substr(first.size()) : "." + text;
  if (walked.global) return fmt::format("G['{}']{}", python::text_of(start->key.get()), rest);
  return start->kind == AccessKind::Argument ? fmt::format("L['{}']{}", start->name, rest) : text;
}

constexpr const char* kKindNames[] = {
#define X(name, text) #name,
    FIRESTEEL_GUARD_KINDS(X)
#undef X
};

PyRef truth(bool value) { return PyRef::borrow(value ? Py_True : Py_False); }

PyRef shown(const Guard& guard, const GuardRoots& roots) {
  const Walk walked = walk(guard.source, roots);
  PyRef name = checked(PyUnicode_FromString(path_of(guard.source, walked).c_str()));
  PyRef kind = checked(PyUnicode_FromString(kKindNames[static_cast<size_t>(guard.kind)]));
  return checked(PyTuple_Pack(6, name.get(), truth(walked.value).get(), walked.value ? walked.value : Py_None,
                              kind.get(), truth(walked.global).get(), walked.module ? walked.module : Py_None));
}

}  // namespace

void leave_out_guards(PyObject* filter, const GuardRoots& roots, std::vector<Guard>& guards) {
  PyRef rows = checked(PyList_New(0));
  std::vector<size_t> places;
  for (size_t i = 0; i < guards.size(); ++i) {
    if (!guards[i].source || guards[i].kind == GuardKind::Sizes) continue;
    python::check(PyList_Append(rows.get(), shown(guards[i], roots).get()) == 0);
    places.push_back(i);
  }
  PyRef kept = checked(PySequence_List(checked(PyObject_CallOneArg(filter, rows.get())).get()));
  if (PyList_GET_SIZE(kept.get()) != static_cast<Py_ssize_t>(places.size())) {
    PyErr_Format(PyExc_ValueError, "a filter of guards gives one truth for each of them: %zd for %zd",
                 PyList_GET_SIZE(kept.get()), static_cast<Py_ssize_t>(places.size()));
    python::throw_python_error();
  }
  std::vector<bool> leaves(guards.size());
  for (size_t i = 0; i < places.size(); ++i)
    leaves[places[i]] = PyObject_IsTrue(PyList_GET_ITEM(kept.get(), static_cast<Py_ssize_t>(i))) == 0;
  size_t at = 0;
  std::erase_if(guards, [&](const Guard&) { return leaves[at++]; });
}

}  // namespace firesteel::capture
