// The table of marks. It holds callables weakly where it can: an entry whose callable died counts for nothing.
#include "capture/marks.h"

#include <unordered_map>
#include <unordered_set>

#include "capture/callables.h"
#include "guards/ambient.h"
#include "python/constants.h"
#include "python/errors.h"

namespace firesteel::capture {
namespace {

struct Kept {
  PyRef holder;  // a weak reference, or the callable itself
  MarkRow row;

  bool is_for(PyObject* callable) const {
    return holder.get() == callable ||
           (PyWeakref_CheckRef(holder.get()) && PyWeakref_GET_OBJECT(holder.get()) == callable);
  }
};

std::unordered_map<PyObject*, Kept>& table() {
  static auto* all = new std::unordered_map<PyObject*, Kept>;  // holds Python objects: never destroyed
  return *all;
}

std::unordered_set<std::string>& disallowed_operators() {
  static auto* names = new std::unordered_set<std::string>;
  return *names;
}

void drop_dead() {
  std::vector<Kept> dead;  // dropping may run Python
  for (auto entry = table().begin(); entry != table().end();) {
    const bool gone =
        PyWeakref_CheckRef(entry->second.holder.get()) && PyWeakref_GET_OBJECT(entry->second.holder.get()) == Py_None;
    if (gone) dead.push_back(std::move(entry->second));
    entry = gone ? table().erase(entry) : std::next(entry);
  }
}

// `aten::add.Tensor` of an overload, `aten::add` of a packet; empty for what is no operator of torch.ops.
std::string operator_name(PyObject* callable) {
  if (!is_torch_op(callable)) return {};
  PyRef text = python::attribute(callable, "_name");
  if (!text) text = python::attribute(callable, "_qualified_op_name");
  return std::string(python::text_of(text.get()));
}

bool is_set(PyObject* dict, const char* name) {
  PyObject* value = PyDict_GetItemString(dict, name);
  return value && value == Py_True;
}

// Libraries carry PyTorch's decorators: what these leave on a function means the same here.
MarkRow torchs_own_mark(PyObject* callable) {
  if (!PyFunction_Check(callable)) return {};
  PyObject* dict = reinterpret_cast<PyFunctionObject*>(callable)->func_dict;
  if (!dict || PyDict_GET_SIZE(dict) == 0) return {};
  // functools.wraps copies what was meant for another function.
  if (PyObject* own = PyDict_GetItemString(dict, "_torchdynamo_wrapper_id"); own && PyLong_Check(own)) {
    if (PyLong_AsVoidPtr(own) != callable) return {};
  }
  if (is_set(dict, "_torchdynamo_disable")) {
    PyObject* reason = PyDict_GetItemString(dict, "_torchdynamo_disable_msg");
    return {Mark::Disabled, {}, reason && PyUnicode_Check(reason) ? std::string(python::text_of(reason)) : ""};
  }
  if (is_set(dict, "_dynamo_marked_constant")) return {Mark::Constant, {}, {}};
  if (is_set(dict, "_dynamo_forbidden")) return {Mark::Forbidden, {}, {}};
  return {};
}

}  // namespace

void set_mark(PyObject* callable, MarkRow row) {
  drop_dead();
  if (const std::string name = operator_name(callable); !name.empty()) {
    if (row.mark == Mark::Disallowed) {
      disallowed_operators().insert(name);
    } else {
      disallowed_operators().erase(name);
    }
  }
  Kept old;
  if (auto found = table().find(callable); found != table().end()) old = std::move(found->second);
  if (row.mark == Mark::None) {
    table().erase(callable);
  } else {
    PyRef holder = PyRef::steal(PyWeakref_NewRef(callable, nullptr));
    if (!holder) {
      PyErr_Clear();
      holder = PyRef::borrow(callable);
    }
    table()[callable] = {std::move(holder), std::move(row)};
  }
  guards::change_controls();
}

MarkRow mark_of(PyObject* callable) {
  if (!table().empty()) {
    auto found = table().find(callable);
    if (found != table().end() && found->second.is_for(callable)) return found->second.row;
    // A packet stands for all its overloads.
    if (!disallowed_operators().empty() && is_torch_op(callable)) {
      const std::string name = operator_name(callable);
      if (disallowed_operators().count(name) || disallowed_operators().count(name.substr(0, name.find('.'))))
        return {Mark::Disallowed, {}, {}};
    }
  }
  return torchs_own_mark(callable);
}

MarkRow mark_of_class(PyTypeObject* type) {
  if (table().empty() || !type->tp_mro) return {};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    MarkRow row = mark_of(PyTuple_GET_ITEM(type->tp_mro, i));
    if (row.mark == Mark::Disabled) return row;
  }
  return {};
}

bool any_disallowed_operators() { return !disallowed_operators().empty(); }

bool is_disallowed_operator(const std::string& name, const std::string& overload) {
  return disallowed_operators().count(name) || disallowed_operators().count(name + "." + overload) ||
         (overload.empty() && disallowed_operators().count(name + ".default"));
}

}  // namespace firesteel::capture
