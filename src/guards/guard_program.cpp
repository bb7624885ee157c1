// Lays guards out in the order of their steps, runs them, explains a miss.
#include "guards/guard_program.h"

#include <algorithm>

#include <fmt/format.h>

#include "python/constants.h"
#include "python/tensor_objects.h"

namespace firesteel::guards {
namespace {

constexpr const char* kTexts[] = {
#define X(name, text) text,
    FIRESTEEL_GUARD_KINDS(X)
#undef X
};

std::string type_name(PyObject* type) { return reinterpret_cast<PyTypeObject*>(type)->tp_name; }

std::string keys_text(PyObject* keys) {
  PyRef list = PyRef::steal(PySequence_List(keys));
  if (!list) PyErr_Clear();
  return list ? python::spell(list.get()) : "?";
}

// Keys are constants of exact types, or objects compared by identity: no Python code runs.
bool same_keys(PyObject* dict, PyObject* keys) {
  if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys)) return false;
  Py_ssize_t position = 0, i = 0;
  auto same_key = [&](PyObject* key) {
    PyObject* expected = PyTuple_GET_ITEM(keys, i++);
    if (key == expected) return true;
    if (Py_TYPE(key) != Py_TYPE(expected) || !PyUnicode_CheckExact(key)) {
      if (!PyLong_CheckExact(key) || !PyLong_CheckExact(expected)) return false;
    }
    return python::same_constant(key, expected);
  };
  PyObject* key = nullptr;
  if (!PyODict_Check(dict)) {
    while (PyDict_Next(dict, &position, &key, nullptr)) {
      if (!same_key(key)) return false;
    }
    return true;
  }
  // An OrderedDict keeps its order beside the dict.
  PyRef in_order = PyRef::steal(PyODict_Type.tp_iter(dict));
  while (PyRef next = PyRef::steal(in_order ? PyIter_Next(in_order.get()) : nullptr)) {
    if (!same_key(next.get())) return false;
  }
  if (PyErr_Occurred()) PyErr_Clear();
  return i == PyTuple_GET_SIZE(keys);
}

// Items are constants or classes: hashing and comparing them runs no Python code.
bool same_items(PyObject* set, PyObject* items) {
  if (!PyAnySet_Check(set) || PySet_GET_SIZE(set) != PySet_GET_SIZE(items)) return false;
  Py_ssize_t position = 0;
  PyObject* item = nullptr;
  Py_hash_t hash = 0;
  while (_PySet_NextEntry(set, &position, &item, &hash)) {
    const bool plain = PyUnicode_CheckExact(item) || PyLong_CheckExact(item) || PyFloat_CheckExact(item) ||
                       PyBytes_CheckExact(item) || PyTuple_CheckExact(item) || item == Py_None || PyBool_Check(item) ||
                       PyType_Check(item) || Py_TYPE(item)->tp_hash == PyBaseObject_Type.tp_hash;
    if (!plain) return false;
    const int found = PySet_Contains(items, item);
    if (found < 0) PyErr_Clear();
    if (found != 1) return false;
  }
  return true;
}

// Comparing values of these runs no Python code; an enum's members are compared by identity alone.
bool is_builtin_like(PyObject* a, PyObject* b) {
  return Py_TYPE(a) == Py_TYPE(b) && !(Py_TYPE(a)->tp_flags & Py_TPFLAGS_HEAPTYPE);
}

int64_t length_of(PyObject* object) {
  if (PyList_Check(object) || PyTuple_Check(object)) return PySequence_Fast_GET_SIZE(object);
  if (PyDict_Check(object)) return PyDict_GET_SIZE(object);
  if (PyAnySet_Check(object)) return PySet_GET_SIZE(object);
  if (is_plain_deque(object)) return Py_SIZE(object);
  return -1;
}

// `expected` is (code, globals): a function made anew by the same `def` is the same function.
bool is_function_of(PyObject* value, PyObject* expected) {
  if (!PyFunction_Check(value)) return false;
  auto* function = reinterpret_cast<PyFunctionObject*>(value);
  return function->func_code == PyTuple_GET_ITEM(expected, 0) &&
         function->func_globals == PyTuple_GET_ITEM(expected, 1);
}

}  // namespace

bool ClassAttributes::unchanged() const {
  auto* checked = reinterpret_cast<PyTypeObject*>(type.get());
  if (version != 0 && checked->tp_version_tag == version) return true;
  for (const auto& [name, value] : found) {
    if (_PyType_Lookup(checked, name.get()) != value.get()) return false;
  }
  version = checked->tp_version_tag;
  return true;
}

GuardProgram::GuardProgram(const SourceTable& sources, std::vector<Guard> guards,
                           const std::vector<const Source*>& wanted) {
  std::vector<bool> needed(sources.all().size(), false);
  auto need = [&](const Source* source) {
    std::vector<const Source*> open{source};
    while (!open.empty()) {
      const Source* next = open.back();
      open.pop_back();
      for (; next && !needed[next->slot]; next = next->parent) {
        needed[next->slot] = true;
        if (next->second) open.push_back(next->second);
      }
    }
  };
  for (const Source* source : wanted) need(source);
  for (const Guard& guard : guards) {
    need(guard.source);
    need(guard.other);
  }
  for (const Source& source : sources.all()) {
    if (!needed[source.slot]) continue;
    slots_[source.slot] = static_cast<uint32_t>(steps_.size());
    Step& step = steps_.emplace_back();
    step.kind = source.kind;
    step.from = source.parent ? slots_.at(source.parent->slot) : 0;
    step.is_root = !source.parent;
    step.has_second = source.second != nullptr;
    if (source.second) step.second = slots_.at(source.second->slot);
    step.index = source.index;
    step.key = source.key;
    step.text = source.str();
  }
  for (const Source* source : wanted) steps_[slots_.at(source->slot)].wanted = true;
  // A guard on two sources runs when the later one has been walked.
  auto place = [&](const Guard& guard) -> uint32_t {
    if (!guard.source) return static_cast<uint32_t>(steps_.size());
    const uint32_t own = slots_.at(guard.source->slot);
    return guard.other ? std::max(own, slots_.at(guard.other->slot)) : own;
  };
  std::stable_sort(guards.begin(), guards.end(), [&](const Guard& a, const Guard& b) { return place(a) < place(b); });
  guards_ = std::move(guards);
  size_t at = 0;
  for (uint32_t step = 0; step < steps_.size(); ++step) {
    steps_[step].first_guard = static_cast<uint32_t>(at);
    while (at < guards_.size() && place(guards_[at]) == step) ++at;
    steps_[step].last_guard = static_cast<uint32_t>(at);
  }
  classes_begin_ = static_cast<uint32_t>(at);
  for (Guard& guard : guards_) {
    other_slots_.push_back(guard.other ? slots_.at(guard.other->slot) : 0);
    // Sources die with the capture; the program keeps slots only.
    guard.number = guard.kind == GuardKind::Length ? guard.number : guard.source ? slots_.at(guard.source->slot) : 0;
    guard.other = nullptr;
    guard.source = nullptr;
  }
}

bool GuardProgram::holds(const Guard& guard, PyObject* value, const Slots& slots) const {
  switch (guard.kind) {
    case GuardKind::Type:
      return reinterpret_cast<PyObject*>(Py_TYPE(value)) == guard.expected.get();
    case GuardKind::Identity:
      return value == guard.expected.get();
    case GuardKind::Constant:
      return value == guard.expected.get() ||
             (is_builtin_like(value, guard.expected.get()) && python::same_constant(value, guard.expected.get()));
    case GuardKind::Length:
      return length_of(value) == guard.number;
    case GuardKind::Keys:
      return same_keys(value, guard.expected.get());
    case GuardKind::Items:
      return same_items(value, guard.expected.get());
    case GuardKind::Absent:
      return !PyDict_Check(value) || !follow(AccessKind::DictItem, value, guard.expected.get(), 0);
    case GuardKind::Present:
      return PyDict_Check(value) && follow(AccessKind::DictItem, value, guard.expected.get(), 0);
    case GuardKind::ClassAttributes:
      return guard.attributes->unchanged();
    case GuardKind::Code:
      return is_function_of(value, guard.expected.get());
    case GuardKind::Builtin:
      return PyCFunction_Check(value) && reinterpret_cast<PyCFunctionObject*>(value)->m_ml ==
                                             reinterpret_cast<PyCFunctionObject*>(guard.expected.get())->m_ml;
    case GuardKind::Tensor:
      return reinterpret_cast<PyObject*>(Py_TYPE(value)) == guard.expected.get() &&
             guard.tensor->match(python::unpack(value));
    case GuardKind::Same:
    case GuardKind::Distinct: {
      const size_t self = static_cast<size_t>(&guard - guards_.data());
      return (slots[guard.number] == slots[other_slots_[self]]) == (guard.kind == GuardKind::Same);
    }
  }
  return false;
}

bool GuardProgram::all_absent(const Step& step) const {
  return std::all_of(guards_.begin() + step.first_guard, guards_.begin() + step.last_guard,
                     [](const Guard& guard) { return guard.kind == GuardKind::Absent; });
}

PyObject* GuardProgram::walk(const Step& step, PyObject* const* arguments, PyObject* function, Slots& slots) const {
  switch (step.kind) {
    case AccessKind::Argument:
      return arguments[step.index];
    case AccessKind::Function:
      return function;
    case AccessKind::Computed: {
      PyObject* numbers[] = {nullptr, slots[step.from], step.has_second ? slots[step.second] : nullptr};
      PyObject* made = PyObject_Vectorcall(step.key.get(), numbers + 1,
                                           (step.has_second ? 2 : 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
      if (!made) return PyErr_Clear(), nullptr;  // a division by zero: nothing was captured for it
      return slots.computed.emplace_back(PyRef::steal(made)).get();
    }
    default:
      return follow(step.kind, slots[step.from], step.key.get(), step.index);
  }
}

int GuardProgram::run(PyObject* const* arguments, PyObject* function, Slots& slots) const {
  lost_step_ = -1;
  slots.values.resize(steps_.size());
  slots.computed.clear();
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    PyObject* value = walk(step, arguments, function, slots);
    if (!value && step.wanted && step.kind == AccessKind::InstanceDict) {
      // An object whose dict has not been needed so far gets an empty one, which it keeps.
      value = PyRef::steal(PyObject_GenericGetDict(slots[step.from], nullptr)).get();
      if (!value) PyErr_Clear();
    }
    slots.values[i] = value;
    if (!value) {
      // An instance without a dict of its own hides nothing.
      if (step.kind == AccessKind::InstanceDict && all_absent(step)) continue;
      lost_step_ = static_cast<int>(i);
      return static_cast<int>(step.first_guard);
    }
    for (uint32_t g = step.first_guard; g < step.last_guard; ++g) {
      if (!holds(guards_[g], value, slots)) return static_cast<int>(g);
    }
  }
  for (size_t g = classes_begin_; g < guards_.size(); ++g) {
    if (!holds(guards_[g], nullptr, slots)) return static_cast<int>(g);
  }
  return kPass;
}

std::string GuardProgram::explain(int failed, PyObject* const* arguments, PyObject* function) const {
  Slots slots;
  if (run(arguments, function, slots) == kPass) return "nothing";
  if (lost_step_ >= 0) return fmt::format("`{}` is no longer there", steps_[lost_step_].text);
  const Guard& guard = guards_.at(failed);
  std::string source, then, now;
  PyObject* value = nullptr;
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (static_cast<int>(steps_[i].first_guard) > failed || failed >= static_cast<int>(steps_[i].last_guard)) continue;
    source = steps_[i].text;
    value = slots[i];
  }
  switch (guard.kind) {
    case GuardKind::Type:
      then = type_name(guard.expected.get());
      now = Py_TYPE(value)->tp_name;
      break;
    case GuardKind::Length:
      then = std::to_string(guard.number);
      now = std::to_string(length_of(value));
      break;
    case GuardKind::Items:
    case GuardKind::Keys:
      then = keys_text(guard.expected.get());
      now = keys_text(value);
      break;
    case GuardKind::ClassAttributes:
      then = type_name(guard.attributes->type.get());
      for (const auto& [name, found] : guard.attributes->found) {
        auto* type = reinterpret_cast<PyTypeObject*>(guard.attributes->type.get());
        if (_PyType_Lookup(type, name.get()) != found.get()) now = python::text_of(name.get());
      }
      break;
    case GuardKind::Tensor:
      now = python::is_tensor(value) ? guard.tensor->difference(python::unpack(value)) : "no tensor any more";
      if (now.empty()) now = fmt::format("a {}, was a {}", Py_TYPE(value)->tp_name, type_name(guard.expected.get()));
      break;
    case GuardKind::Code:
      then = python::spell(PyTuple_GET_ITEM(guard.expected.get(), 0));
      now = python::spell(value);
      break;
    case GuardKind::Same:
    case GuardKind::Distinct:
      source = steps_[guard.number].text;
      then = steps_[other_slots_[failed]].text;
      break;
    default:
      then = python::spell(guard.expected.get());
      now = value ? python::spell(value) : "";
  }
  return fmt::format(fmt::runtime(kTexts[static_cast<size_t>(guard.kind)]), source, then, now);
}

SourcePath GuardProgram::path_to(size_t at) const {
  SourcePath path;
  for (;; at = steps_[at].from) {
    const Step& step = steps_[at];
    path.insert(path.begin(), {step.kind, step.key, step.index, step.is_root ? step.text : ""});
    if (step.is_root) return path;
  }
}

std::vector<SourcePath> GuardProgram::changed_numbers(PyObject* const* arguments, PyObject* function) const {
  std::vector<SourcePath> changed;
  Slots slots;
  slots.values.resize(steps_.size());
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const bool reachable = step.is_root || slots[step.from];
    PyObject* value = step.kind != AccessKind::Computed && reachable ? walk(step, arguments, function, slots) : nullptr;
    slots.values[i] = value;
    if (!value || !(PyLong_CheckExact(value) || PyFloat_CheckExact(value))) continue;
    for (uint32_t g = step.first_guard; g < step.last_guard; ++g) {
      const Guard& guard = guards_[g];
      if (guard.kind == GuardKind::Constant && Py_TYPE(guard.expected.get()) == Py_TYPE(value) &&
          !holds(guard, value, slots)) {
        changed.push_back(path_to(i));
        break;
      }
    }
  }
  return changed;
}

SourcePath GuardProgram::moved_tensor(int failed, const Slots& slots) const {
  if (failed < 0 || lost_step_ >= 0 || static_cast<size_t>(failed) >= guards_.size()) return {};
  const Guard& guard = guards_[failed];
  if (guard.kind != GuardKind::Identity || !python::is_exact_tensor(guard.expected.get())) return {};
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (static_cast<int>(steps_[i].first_guard) > failed || failed >= static_cast<int>(steps_[i].last_guard)) continue;
    return python::is_exact_tensor(slots[i]) ? path_to(i) : SourcePath();
  }
  return {};
}

std::vector<std::string> GuardProgram::describe() const {
  constexpr const char* kNames[] = {
#define X(name, text) #name,
      FIRESTEEL_GUARD_KINDS(X)
#undef X
  };
  std::vector<std::string> lines;
  auto line = [&](const Guard& guard, const std::string& text) {
    std::string more = guard.expected && guard.kind != GuardKind::Tensor ? python::spell(guard.expected.get()) : "";
    if (guard.kind == GuardKind::Code) more = python::spell(PyTuple_GET_ITEM(guard.expected.get(), 0));
    if (guard.kind == GuardKind::Length) more = std::to_string(guard.number);
    if (guard.attributes) more = type_name(guard.attributes->type.get());
    if (guard.tensor) more = guard.tensor->str();
    if (guard.kind == GuardKind::Same || guard.kind == GuardKind::Distinct)
      more = steps_[other_slots_[&guard - guards_.data()]].text;
    lines.push_back(fmt::format("{} {} {}", kNames[static_cast<size_t>(guard.kind)], text, more));
  };
  for (const Step& step : steps_) {
    for (uint32_t g = step.first_guard; g < step.last_guard; ++g) line(guards_[g], step.text);
  }
  for (size_t g = classes_begin_; g < guards_.size(); ++g) line(guards_[g], "class");
  return lines;
}

int GuardProgram::traverse(visitproc visit, void* arg) const {
  for (const Step& step : steps_) Py_VISIT(step.key.get());
  for (const Guard& guard : guards_) Py_VISIT(guard.expected.get());
  return 0;
}

}  // namespace firesteel::guards
