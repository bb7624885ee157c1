// Guarding, watching and searching around opaque functions.
#include "capture/opaque_state.h"

#include <structmember.h>

#include <fmt/format.h>

#include "capture/callables.h"
#include "capture/cpython/frame_shim.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/input_names.h"
#include "python/pytree_nodes.h"
#include "python/tensor_objects.h"
#include "python/traced_tensors.h"

namespace firesteel::capture {
namespace {

using python::checked;

constexpr int kDeepest = 16;

// Calls visit(child) for what lies directly in a container.
template <class F>
void each_child(PyObject* container, F&& visit) {
  if (PyDict_Check(container)) {
    PyRef values = checked(PyDict_Values(container));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(values.get()); ++i) visit(PyList_GET_ITEM(values.get(), i));
  } else if (PyList_Check(container) || PyTuple_Check(container) || guards::is_plain_deque(container)) {
    PyRef items = checked(PySequence_Tuple(container));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) visit(PyTuple_GET_ITEM(items.get(), i));
  }
}

void watch(Capture& capture, PyObject* value, int depth);

// The attributes of an object of a registered class, in its dict and its slots.
void watch_attributes(Capture& capture, PyObject* object, const Source* source, int depth) {
  capture.add_guard({GuardKind::Type, source, PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(object)))});
  if (PyObject* dict = fs_instance_dict(object)) {
    capture.remember(dict, capture.sources.step(source, AccessKind::InstanceDict));
    watch(capture, dict, depth);
  }
  PyObject* mro = Py_TYPE(object)->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    auto* type = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    Py_ssize_t position = 0;
    PyObject* member = nullptr;
    while (PyDict_Next(fs_type_dict(type), &position, nullptr, &member)) {
      if (!Py_IS_TYPE(member, &PyMemberDescr_Type) ||
          reinterpret_cast<PyMemberDescrObject*>(member)->d_member->type != T_OBJECT_EX)
        continue;
      PyObject* held = slot_value(object, member);
      if (!held) continue;
      const Source* at = capture.sources.step(source, AccessKind::Member, member);
      if (python::is_tensor(held)) {
        capture.remember(held, at);
      } else {
        capture.admit(held, at);
        watch(capture, held, depth);
      }
    }
  }
}

// Parameters and buffers are inputs of the graph; plain attributes are guarded, down to what their objects hold.
void watch_module(Capture& capture, PyObject* module, const Source* source, int depth) {
  PyObject* dict = guards::instance_dict(module);
  if (!dict || !capture.consult_once(module)) return;
  const Source* dict_source = capture.sources.step(source, AccessKind::InstanceDict);
  capture.remember(dict, dict_source);
  capture.consult(dict);
  auto look_at = [&](PyObject* held, const Source* at) {
    capture.admit(held, at);
    if (is_nn_module(held)) {
      watch_module(capture, held, at, depth);
    } else if (is_python_class(Py_TYPE(held)) && !PyDict_Check(held)) {
      if (capture.consult_once(held)) watch_attributes(capture, held, at, depth + 1);
    } else {
      watch(capture, held, depth + 1);
    }
  };
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(dict, &position, &key, &value)) {
    const Source* at = capture.sources.item(dict_source, key);
    if (!is_mapping(value)) {
      look_at(value, at);
      continue;
    }
    capture.admit(value, at);
    capture.consult(value);
    Py_ssize_t inner = 0;
    PyObject *name = nullptr, *held = nullptr;
    while (PyDict_Next(value, &inner, &name, &held)) look_at(held, capture.sources.item(at, name));
  }
}

// What the captured code put into it may have been there before.
void watch_made_module(Capture& capture, PyObject* module, int depth) {
  PyObject* dict = guards::instance_dict(module);
  if (!dict) return;
  for (const char* name : {"_parameters", "_buffers", "_modules"}) {
    PyObject* held = PyDict_GetItemString(dict, name);
    if (held && PyDict_Check(held)) each_child(held, [&](PyObject* child) { watch(capture, child, depth); });
  }
}

void watch(Capture& capture, PyObject* value, int depth) {
  if (python::is_tensor(value) || is_guardable_constant(value)) return;
  if (depth > kDeepest) capture.stop(BreakReason::Value, "a value that nests too deep");
  const Source* source = capture.source_of(value);
  if (is_nn_module(value)) {
    if (!source) return watch_made_module(capture, value, depth + 1);
    capture.add_guard({GuardKind::Identity, source, PyRef::borrow(value)});
    watch_module(capture, value, source, depth);
    return;
  }
  const bool container =
      PyList_Check(value) || PyTuple_Check(value) || PyDict_Check(value) || guards::is_plain_deque(value);
  if (container || PyAnySet_CheckExact(value)) {
    capture.consult(value);
    each_child(value, [&](PyObject* child) { watch(capture, child, depth + 1); });
  } else if (source && PyFunction_Check(value)) {
    return;
  } else if (source && (python::is_plain_constant(value) || PyType_Check(value))) {
    capture.add_guard(
        {GuardKind::Identity, source, PyRef::borrow(value)});  // a class, or of a number's or string's own subclass
  } else if (source && python::kind_of(value)) {
    if (is_deque(value)) capture.stop(BreakReason::Value, "a deque of a class of its own");
    watch_attributes(capture, value, source, depth + 1);
  } else if (!source && python::kind_of(value)) {
    if (PyObject* dict = fs_instance_dict(value))
      each_child(dict, [&](PyObject* child) { watch(capture, child, depth + 1); });
  }
}

bool holds_object(PyObject* value, int depth) {
  if (python::is_tensor(value) || python::is_plain_constant(value)) return false;
  bool found = depth > kDeepest || !(PyDict_CheckExact(value) || PyList_CheckExact(value) || PyTuple_Check(value));
  if (!found) each_child(value, [&](PyObject* child) { found = found || holds_object(child, depth + 1); });
  return found;
}

PyObject* innermost_function(PyObject* callable) {
  while (PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
  return PyFunction_Check(callable) ? callable : nullptr;
}

// The first key whose value is another one than before, or that came or went; null: none.
PyRef changed_key(PyObject* before, PyObject* now) {
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(now, &position, &key, &value)) {
    PyObject* old = PyDict_GetItemWithError(before, key);
    // Importing and warning leave their marks in a module, which mean nothing to a program.
    const bool incidental = PyModule_Check(value) || (PyUnicode_Check(key) && python::text_of(key).starts_with("__"));
    if (old != value && !incidental) return PyRef::borrow(key);
  }
  position = 0;
  while (PyDict_Next(before, &position, &key, nullptr)) {
    if (!PyDict_GetItemWithError(now, key)) return PyRef::borrow(key);
  }
  return {};
}

// Who holds an object, apart from what this search itself holds it by.
std::vector<PyRef> holders_of(PyObject* object, PyObject* gc, PyObject* searched) {
  PyRef found = PyRef::steal(PyObject_CallMethod(gc, "get_referrers", "(O)", object));
  if (!found) PyErr_Clear();
  std::vector<PyRef> holders;
  for (Py_ssize_t i = 0; found && i < PyList_GET_SIZE(found.get()); ++i) {
    PyObject* holder = PyList_GET_ITEM(found.get(), i);
    if (holder != searched && !PyFrame_Check(holder) && !PyTuple_CheckExact(holder))
      holders.push_back(PyRef::borrow(holder));
  }
  return holders;
}

std::string key_of(PyObject* dict, PyObject* value) {
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *held = nullptr;
  while (PyDict_Next(dict, &position, &key, &held)) {
    if (held == value) return PyUnicode_Check(key) ? std::string(python::text_of(key)) : python::spell(key);
  }
  return "?";
}

constexpr int kHolders = 3;  // how far a place is described: a tensor in a list in a global

// `the global `KEPT` of `train``, `a list in the attribute `seen` of a Net`.
std::string place_in(PyObject* object, PyObject* holder, PyObject* gc, PyObject* searched, int left) {
  if (PyCell_Check(holder)) return "a variable of an enclosing function";
  const std::string key = PyDict_Check(holder) ? key_of(holder, object) : "";
  if (PyObject* name = PyDict_Check(holder) ? PyDict_GetItemString(holder, "__name__") : nullptr;
      name && PyUnicode_Check(name))
    return fmt::format("the global `{}` of `{}`", key, python::text_of(name));
  std::string kind = fmt::format("a {}", Py_TYPE(holder)->tp_name);
  for (const PyRef& owner : left > 0 ? holders_of(holder, gc, searched) : std::vector<PyRef>()) {
    if (fs_instance_dict(owner.get()) == holder)
      return fmt::format("the attribute `{}` of a {}", key, Py_TYPE(owner.get())->tp_name);
    if (PyDict_Check(owner.get()) || PyList_Check(owner.get()) || PyCell_Check(owner.get()))
      return fmt::format("{} in {}", kind, place_in(holder, owner.get(), gc, searched, left - 1));
  }
  return kind;
}

}  // namespace

void watch_opaque_input(Capture& capture, PyObject* value) { watch(capture, value, 0); }

void refuse_objects(Capture& capture, PyObject* value, const std::string& name) {
  if (!holds_object(value, 0)) return;
  capture.refuse("ControlError",
                 fmt::format("an argument of `{}` is an object: a function under allow_in_graph() takes tensors, "
                             "numbers, text and containers of these\n  try: nonstrict_trace(), which takes more",
                             name));
}

std::string describe_captured(PyObject* function, const std::string& name, const at::Tensor& tensor) {
  const std::string found = python::name_of_captured(function, tensor);
  return fmt::format(
      "`{}` reads {} that requires a gradient and is not among its arguments: no gradient will reach it\n"
      "  try: pass it as an argument",
      name, found.empty() ? "a tensor" : fmt::format("the tensor `{}`", found));
}

OpaqueState::OpaqueState(PyObject* callable, PyObject* args, PyObject* kwargs) {
  if (PyObject* object = innermost_function(callable)) {
    auto* function = reinterpret_cast<PyFunctionObject*>(object);
    add_dict(function->func_globals, "sets the global `{}`");
    PyRef names = python::attribute(function->func_code, "co_freevars");
    for (Py_ssize_t i = 0; function->func_closure && names && i < PyTuple_GET_SIZE(function->func_closure); ++i) {
      PyObject* cell = PyTuple_GET_ITEM(function->func_closure, i);
      watched_.push_back(
          {PyRef::borrow(cell), PyRef::borrow(PyCell_GET(cell)),
           fmt::format("sets `{}` of an enclosing function", python::text_of(PyTuple_GET_ITEM(names.get(), i)))});
    }
  }
  add_modules(args, 0);
  if (kwargs) add_modules(kwargs, 0);
}

void OpaqueState::add_dict(PyObject* dict, const std::string& what) {
  watched_.push_back({PyRef::borrow(dict), plain_copy(dict), what});
}

void OpaqueState::add_modules(PyObject* value, int depth) {
  if (depth > kDeepest || python::is_tensor(value)) return;
  if (is_nn_module(value)) return add_module(value, depth);
  each_child(value, [&](PyObject* child) { add_modules(child, depth + 1); });
}

void OpaqueState::add_module(PyObject* module, int depth) {
  PyObject* dict = guards::instance_dict(module);
  if (!dict || depth > kDeepest) return;
  const std::string what = fmt::format("sets the attribute `{{}}` of a {}", Py_TYPE(module)->tp_name);
  add_dict(dict, what);
  for (const char* name : {"_parameters", "_buffers", "_modules"}) {
    PyObject* held = PyDict_GetItemString(dict, name);
    if (!held || !PyDict_Check(held)) continue;
    add_dict(held, what);
    each_child(held, [&](PyObject* child) {
      if (is_nn_module(child)) add_module(child, depth + 1);
    });
  }
}

std::string OpaqueState::pending(const Journal& journal) const {
  for (const Watched& entry : watched_) {
    if (!journal.touched(entry.container.get())) continue;
    if (PyCell_Check(entry.container.get())) return entry.what;
    PyRef key = changed_key(journal.original(entry.container.get()), entry.container.get());
    if (key) return fmt::format(fmt::runtime(entry.what), python::text_of(key.get()));
  }
  return {};
}

std::string OpaqueState::put_back() {
  python::ErrorAside aside;
  std::string changed;
  for (const Watched& entry : watched_) {
    if (PyCell_Check(entry.container.get())) {
      if (PyCell_GET(entry.container.get()) == entry.before.get()) continue;
      if (changed.empty()) changed = entry.what;
      python::check(PyCell_Set(entry.container.get(), entry.before.get()) == 0);
      continue;
    }
    PyRef key = changed_key(entry.before.get(), entry.container.get());
    if (!key) continue;
    if (changed.empty()) changed = fmt::format(fmt::runtime(entry.what), python::text_of(key.get()));
    refill(entry.container.get(), entry.before.get());
  }
  return changed;
}

std::string find_leaked_tensor() {
  PyRef gc = checked(PyImport_ImportModule("gc"));
  PyRef objects = checked(PyObject_CallMethod(gc.get(), "get_objects", nullptr));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects.get()); ++i) {
    PyObject* object = PyList_GET_ITEM(objects.get(), i);
    if (!python::is_traced_object(object)) continue;
    for (const PyRef& holder : holders_of(object, gc.get(), objects.get()))
      return place_in(object, holder.get(), gc.get(), objects.get(), kHolders);
  }
  return {};
}

}  // namespace firesteel::capture
