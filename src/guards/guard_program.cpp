// Lays guards out in the order of their steps, runs them, explains a miss.
#include "guards/guard_program.h"

#include <algorithm>

#include <fmt/format.h>
#include <structmember.h>

#include "capture/cpython/frame_shim.h"

#include "python/constants.h"
#include "python/errors.h"
#include "python/no_collection.h"
#include "python/tensor_objects.h"

namespace firesteel::guards {
namespace {

constexpr const char* kTexts[] = {
#define X(name, text) text,
    FIRESTEEL_GUARD_KINDS(X)
#undef X
};

std::string type_name(PyObject* type) { return reinterpret_cast<PyTypeObject*>(type)->tp_name; }

std::string keys_text(PyObject* keys, std::string (*spell)(PyObject*)) {
  PyRef list = PyRef::steal(PySequence_List(keys));
  if (!list) PyErr_Clear();
  for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list.get()); ++i) {
    PyObject* key = PyList_GET_ITEM(list.get(), i);
    if (PyWeakref_CheckRefExact(key)) PyList_SetItem(list.get(), i, Py_NewRef(PyWeakref_GET_OBJECT(key)));
  }
  return list ? spell(list.get()) : "?";
}

// Comparing values of these runs no Python code; an enum's members are compared by identity alone.
bool is_builtin_like(PyObject* a, PyObject* b) {
  return Py_TYPE(a) == Py_TYPE(b) && !(Py_TYPE(a)->tp_flags & Py_TPFLAGS_HEAPTYPE);
}

// Keys and items are constants, tuples of these, or objects compared by identity.
bool same_key(PyObject* key, PyObject* expected) {
  if (key == expected) return true;
  if (PyTuple_CheckExact(key) && PyTuple_CheckExact(expected)) {
    const Py_ssize_t size = PyTuple_GET_SIZE(key);
    bool same = size == PyTuple_GET_SIZE(expected);
    for (Py_ssize_t i = 0; same && i < size; ++i)
      same = same_key(PyTuple_GET_ITEM(key, i), PyTuple_GET_ITEM(expected, i));
    return same;
  }
  if (PyWeakref_CheckRefExact(expected)) return PyWeakref_GET_OBJECT(expected) == key && key != Py_None;
  return is_builtin_like(key, expected) && python::same_constant(key, expected);
}

bool same_keys(PyObject* dict, PyObject* keys) {
  if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys)) return false;
  Py_ssize_t position = 0, i = 0;
  PyObject* key = nullptr;
  if (!PyODict_Check(dict)) {
    while (PyDict_Next(dict, &position, &key, nullptr)) {
      if (!same_key(key, PyTuple_GET_ITEM(keys, i++))) return false;
    }
    return true;
  }
  // An OrderedDict keeps its order beside the dict. Its iterator must not set off a collection: all else is borrowed.
  python::NoCollection no_collection;
  PyRef in_order = PyRef::steal(PyODict_Type.tp_iter(dict));
  bool same = true;
  while (PyRef next = PyRef::steal(same && in_order ? PyIter_Next(in_order.get()) : nullptr))
    same = i < PyTuple_GET_SIZE(keys) && same_key(next.get(), PyTuple_GET_ITEM(keys, i++));
  if (PyErr_Occurred()) PyErr_Clear();
  return same && i == PyTuple_GET_SIZE(keys);
}

// In the order in which the set gives them: sets that are equal may differ in it.
bool same_items(PyObject* set, PyObject* items) {
  if (!PyAnySet_Check(set) || PySet_GET_SIZE(set) != PyTuple_GET_SIZE(items)) return false;
  Py_ssize_t position = 0, i = 0;
  PyObject* item = nullptr;
  Py_hash_t hash = 0;
  while (_PySet_NextEntry(set, &position, &item, &hash)) {
    if (!same_key(item, PyTuple_GET_ITEM(items, i++))) return false;
  }
  return true;
}

int64_t length_of(PyObject* object) {
  if (PyList_Check(object) || PyTuple_Check(object)) return PySequence_Fast_GET_SIZE(object);
  if (PyDict_Check(object)) return PyDict_GET_SIZE(object);
  if (PyAnySet_Check(object)) return PySet_GET_SIZE(object);
  if (is_plain_deque(object)) return Py_SIZE(object);
  return -1;
}

// One made anew by the same `def` is the same function. Null globals: any.
bool is_function_of(PyObject* value, PyObject* code, const PyObject* globals) {
  if (!PyFunction_Check(value)) return false;
  auto* function = reinterpret_cast<PyFunctionObject*>(value);
  return function->func_code == code && (!globals || function->func_globals == globals);
}

// Answered by a dict's keys and their order alone: as long as the dict is not changed, so is the answer.
bool is_of_content(GuardKind kind) {
  return kind == GuardKind::Absent || kind == GuardKind::Present || kind == GuardKind::Keys;
}

PyTypeObject* c_class_of(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  while (type->tp_base && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && !(type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE))
    type = type->tp_base;
  return type;
}

}  // namespace

GuardProgram::GuardProgram(const SourceTable& sources, std::vector<Guard> guards,
                           const std::vector<const Source*>& wanted, Holdings& holdings)
    : holdings_(holdings) {
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
    if (!guard.sizes) continue;
    for (const Source* source : guard.sizes->symbol_sources) need(source);
    for (const auto& [source, type] : guard.sizes->tensors) need(source);
  }
  for (const Source& source : sources.all()) {
    if (needed[source.slot]) add_step(source);
  }
  for (const Source* source : wanted) steps_[slots_.at(source->slot)].wanted = true;
  // A guard on two sources runs when the later one has been walked.
  auto place = [&](const Guard& guard) -> uint32_t {
    if (!guard.source) return static_cast<uint32_t>(steps_.size());
    const uint32_t own = slots_.at(guard.source->slot);
    return guard.other ? std::max(own, slots_.at(guard.other->slot)) : own;
  };
  std::stable_sort(guards.begin(), guards.end(), [&](const Guard& a, const Guard& b) {
    return std::pair(place(a), is_of_content(a.kind)) < std::pair(place(b), is_of_content(b.kind));
  });
  size_t at = 0;
  for (uint32_t step = 0; step < steps_.size(); ++step) {
    steps_[step].first_guard = static_cast<uint32_t>(at);
    while (at < guards.size() && place(guards[at]) == step && !is_of_content(guards[at].kind)) ++at;
    steps_[step].of_content = static_cast<uint32_t>(at);
    while (at < guards.size() && place(guards[at]) == step) ++at;
    steps_[step].last_guard = static_cast<uint32_t>(at);
  }
  classes_begin_ = static_cast<uint32_t>(at);
  checks_.reserve(guards.size());
  for (Guard& guard : guards) checks_.push_back(check_of(std::move(guard)));
}

void GuardProgram::add_step(const Source& source) {
  slots_[source.slot] = static_cast<uint32_t>(steps_.size());
  Step& step = steps_.emplace_back();
  step.kind = source.kind;
  step.from = source.parent ? slots_.at(source.parent->slot) : 0;
  step.is_root = !source.parent;
  step.has_second = source.second != nullptr;
  if (source.second) step.second = slots_.at(source.second->slot);
  step.index = source.index;
  texts_.push_back(source.str());
  PyObject* key = source.key.get();
  if (source.kind == AccessKind::Member) {
    // The descriptor holds its class: the place in the object is enough.
    auto* member = reinterpret_cast<PyMemberDescrObject*>(key);
    step.index = member->d_member->offset;
    key = reinterpret_cast<PyObject*>(member->d_common.d_type);
  }
  step.key = source.kind == AccessKind::Kept ? holdings_.keep(key) : holdings_.hold(key);
}

// The same keys, with a weak reference in place of one that can have it.
PyObject* GuardProgram::keys_of(PyObject* keys) {
  PyRef copy = python::checked(PyTuple_New(PyTuple_GET_SIZE(keys)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys, i);
    PyRef held = Holdings::is_weak(key) ? PyRef::steal(PyWeakref_NewRef(key, nullptr)) : PyRef();
    if (!held) PyErr_Clear();
    PyTuple_SET_ITEM(copy.get(), i, (held ? held : PyRef::borrow(key)).release());
  }
  return holdings_.keep(copy.get());
}

GuardProgram::Check GuardProgram::check_of(Guard guard) {
  Check check{guard.kind};
  PyObject* expected = guard.expected.get();
  check.slot = guard.source ? slots_.at(guard.source->slot) : 0;
  check.other = guard.other ? slots_.at(guard.other->slot) : 0;
  auto keep = [&](auto fact) {
    facts_.push_back(fact);
    return fact.get();
  };
  switch (guard.kind) {
    case GuardKind::Length:
      check.number = guard.number;
      break;
    case GuardKind::Tensor:
      check.expected = holdings_.hold(expected);
      check.tensor = keep(std::move(guard.tensor));
      break;
    case GuardKind::Sizes:
      check.sizes = keep(
          std::make_shared<SizeCheck>(*guard.sizes, [&](const Source* source) { return slots_.at(source->slot); }));
      break;
    case GuardKind::ClassAttributes:
      check.attributes = keep(std::make_shared<WatchedClass>(*guard.attributes, holdings_));
      break;
    case GuardKind::Keys:
    case GuardKind::Items:
      check.expected = keys_of(expected);
      break;
    case GuardKind::Code:
      check.expected = holdings_.hold(PyTuple_GET_ITEM(expected, 0));
      if (PyObject* globals = PyTuple_GET_ITEM(expected, 1); globals != Py_None)
        check.globals = holdings_.hold(globals);
      break;
    case GuardKind::Builtin:
      // A bound method holds its object; its definition lives as long as the C class does.
      check.method = reinterpret_cast<PyCFunctionObject*>(expected)->m_ml;
      check.expected = holdings_.hold(reinterpret_cast<PyObject*>(c_class_of(PyCFunction_GET_SELF(expected))));
      break;
    case GuardKind::Identity:
      check.number = python::is_exact_tensor(expected);
      check.expected = holdings_.hold(expected);
      break;
    default:
      check.expected = holdings_.hold(expected);
  }
  return check;
}

bool GuardProgram::holds(const Check& check, PyObject* value, const Slots& slots) const {
  switch (check.kind) {
    case GuardKind::Type:
      return reinterpret_cast<PyObject*>(Py_TYPE(value)) == check.expected;
    case GuardKind::Identity:
      return value == check.expected;
    case GuardKind::Constant:
      return value == check.expected ||
             (is_builtin_like(value, check.expected) && python::same_constant(value, check.expected));
    case GuardKind::Length:
      return length_of(value) == check.number;
    case GuardKind::Keys:
      return same_keys(value, check.expected);
    case GuardKind::Items:
      return same_items(value, check.expected);
    case GuardKind::Absent:
      return !PyDict_Check(value) || !follow(AccessKind::DictItem, value, check.expected, 0);
    case GuardKind::Present:
      return PyDict_Check(value) && follow(AccessKind::DictItem, value, check.expected, 0);
    case GuardKind::ClassAttributes:
      return check.attributes->unchanged();
    case GuardKind::Code:
      return is_function_of(value, check.expected, check.globals);
    case GuardKind::Builtin:
      return PyCFunction_Check(value) && reinterpret_cast<PyCFunctionObject*>(value)->m_ml == check.method;
    case GuardKind::Tensor:
      return reinterpret_cast<PyObject*>(Py_TYPE(value)) == check.expected &&
             check.tensor->match(python::unpack(value)) && check.tensor->marks.allow(value);
    case GuardKind::Sizes:
      return check.sizes->holds(slots.data());
    case GuardKind::Same:
    case GuardKind::Distinct:
      return (slots[check.slot] == slots[check.other]) == (check.kind == GuardKind::Same);
  }
  return false;
}

bool GuardProgram::all_absent(const Step& step) const {
  return std::all_of(checks_.begin() + step.first_guard, checks_.begin() + step.last_guard,
                     [](const Check& check) { return check.kind == GuardKind::Absent; });
}

PyObject* GuardProgram::walk(const Step& step, PyObject* const* arguments, PyObject* function, Slots& slots) const {
  switch (step.kind) {
    case AccessKind::Argument:
      return arguments[step.index];
    case AccessKind::Function:
      return function;
    case AccessKind::Handled:
      return follow(step.kind, nullptr, nullptr, 0);
    case AccessKind::Size: {
      PyObject* tensor = slots[step.from];
      if (!python::is_tensor(tensor) || step.index >= python::unpack(tensor).dim()) return nullptr;
      return slots.computed.emplace_back(PyRef::steal(PyLong_FromLongLong(python::unpack(tensor).size(step.index))))
          .get();
    }
    case AccessKind::Computed: {
      PyObject* numbers[] = {nullptr, slots[step.from], step.has_second ? slots[step.second] : nullptr};
      PyObject* made = PyObject_Vectorcall(step.key, numbers + 1,
                                           (step.has_second ? 2 : 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
      if (!made) return PyErr_Clear(), nullptr;  // a division by zero: nothing was captured for it
      return slots.computed.emplace_back(PyRef::steal(made)).get();
    }
    case AccessKind::Pinned:
    case AccessKind::Kept:
      return step.key;
    case AccessKind::Member: {
      PyObject* object = slots[step.from];
      if (!PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(step.key))) return nullptr;
      return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + step.index);
    }
    case AccessKind::DictItem: {
      PyObject* dict = slots[step.from];
      const uint64_t version = dict ? dict_version(dict) : 0;
      if (version != 0 && version == step.version) return step.found;
      step.found = follow(step.kind, dict, step.key, step.index);
      step.version = version;
      return step.found;
    }
    default:
      return follow(step.kind, slots[step.from], step.key, step.index);
  }
}

bool GuardProgram::content_holds(const Step& step, PyObject* value, const Slots& slots, uint32_t& failed) const {
  const uint64_t version = dict_version(value);
  if (version != 0 && version == step.checked_version) return true;
  for (failed = step.of_content; failed < step.last_guard; ++failed) {
    if (!holds(checks_[failed], value, slots)) return false;
  }
  step.checked_version = version;
  return true;
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
      python::NoCollection no_collection;
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
    uint32_t g = step.first_guard;
    for (; g < step.of_content; ++g) {
      if (!holds(checks_[g], value, slots)) return static_cast<int>(g);
    }
    if (g < step.last_guard && !content_holds(step, value, slots, g)) return static_cast<int>(g);
  }
  for (size_t g = classes_begin_; g < checks_.size(); ++g) {
    if (!holds(checks_[g], nullptr, slots)) return static_cast<int>(g);
  }
  return kPass;
}

std::string GuardProgram::explain(int failed, PyObject* const* arguments, PyObject* function, bool plainly) const {
  const auto spell = plainly ? &python::spell_plainly : &python::spell;
  // Spelling values runs Python code, which may let go of anything.
  const std::vector<PyRef> pins = holdings_.pin_all();
  if (holdings_.dead()) return "an object that was used is gone";
  Slots slots;
  if (run(arguments, function, slots) == kPass) return "nothing";
  if (lost_step_ >= 0) return fmt::format("`{}` is no longer there", texts_[lost_step_]);
  const Check& check = checks_.at(failed);
  std::string source, then, now;
  PyObject* value = nullptr;
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (static_cast<int>(steps_[i].first_guard) > failed || failed >= static_cast<int>(steps_[i].last_guard)) continue;
    source = texts_[i];
    value = slots[i];
  }
  PyObject* expected = check.expected;
  switch (check.kind) {
    case GuardKind::Type:
      then = type_name(expected);
      now = Py_TYPE(value)->tp_name;
      break;
    case GuardKind::Length:
      then = std::to_string(check.number);
      now = std::to_string(length_of(value));
      break;
    case GuardKind::Items:
    case GuardKind::Keys:
      then = keys_text(expected, spell);
      now = keys_text(value, spell);
      break;
    case GuardKind::ClassAttributes:
      then = check.attributes->type()->tp_name;
      now = check.attributes->changed_name();
      break;
    case GuardKind::Tensor:
      now = python::is_tensor(value) ? check.tensor->difference(python::unpack(value)) : "no tensor any more";
      if (now.empty() && !check.tensor->marks.allow(value)) now = "its sizes have been marked anew";
      if (now.empty()) now = fmt::format("a {}, was a {}", Py_TYPE(value)->tp_name, type_name(expected));
      break;
    case GuardKind::Sizes:
      now = check.sizes->explain(slots.data());
      break;
    case GuardKind::Builtin:
      then = check.method->ml_name;
      now = spell(value);
      break;
    case GuardKind::Same:
    case GuardKind::Distinct:
      source = texts_[check.slot];
      then = texts_[check.other];
      break;
    default:
      then = spell(expected);
      now = value ? spell(value) : "";
  }
  return fmt::format(fmt::runtime(kTexts[static_cast<size_t>(check.kind)]), source, then, now);
}

std::string GuardProgram::line(const Check& check, const std::string& text) const {
  constexpr const char* kNames[] = {
#define X(name, text) #name,
      FIRESTEEL_GUARD_KINDS(X)
#undef X
  };
  // A tensor's data says nothing of the guard, and takes long to print.
  const auto spell = check.expected && python::is_tensor(check.expected) ? &python::spell_plainly : &python::spell;
  std::string more = check.expected && check.kind != GuardKind::Tensor ? spell(check.expected) : "";
  if (check.kind == GuardKind::Builtin) more = check.method->ml_name;
  if (check.kind == GuardKind::Length) more = std::to_string(check.number);
  if (check.kind == GuardKind::Keys || check.kind == GuardKind::Items) more = keys_text(check.expected, spell);
  if (check.kind == GuardKind::ClassAttributes) more = check.attributes->type()->tp_name;
  if (check.kind == GuardKind::Tensor) more = check.tensor->str();
  if (check.kind == GuardKind::Same || check.kind == GuardKind::Distinct) more = texts_[check.other];
  return fmt::format("{} {} {}", kNames[static_cast<size_t>(check.kind)], text, more);
}

std::vector<std::string> GuardProgram::describe() const {
  const std::vector<PyRef> pins = holdings_.pin_all();
  std::vector<std::string> lines;
  if (holdings_.dead()) return lines;
  for (size_t i = 0; i < steps_.size(); ++i) {
    for (uint32_t g = steps_[i].first_guard; g < steps_[i].last_guard; ++g)
      lines.push_back(line(checks_[g], texts_[i]));
  }
  for (size_t g = classes_begin_; g < checks_.size(); ++g) {
    if (checks_[g].kind != GuardKind::Sizes) {
      lines.push_back(line(checks_[g], "class"));
      continue;
    }
    for (std::string& text : checks_[g].sizes->describe()) lines.push_back(std::move(text));
  }
  return lines;
}

}  // namespace firesteel::guards
