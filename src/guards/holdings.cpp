// Weak references whose callback cannot fail: it is a C function of an object of our own, called without a frame and
// without the check for deep recursion that would skip it.
#include "guards/holdings.h"

#include <Python.h>
#include <structmember.h>

#include <utility>

#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::guards {

struct DeathNotice {
  PyObject_HEAD vectorcallfunc vectorcall;
  Holdings* owner;  // null when it has gone

  static PyObject* call(PyObject* self, PyObject* const* args, size_t, PyObject*) {
    // The entry owns the reference that is at work now.
    PyRef notice = PyRef::borrow(self), reference = PyRef::borrow(args[0]);
    if (Holdings* owner = reinterpret_cast<DeathNotice*>(self)->owner) owner->died();
    return Py_NewRef(Py_None);
  }

  static void destroy(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
  }
};

namespace {

PyMemberDef g_members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(DeathNotice, vectorcall), READONLY, nullptr},
                           {nullptr, 0, 0, 0, nullptr}};
PyType_Slot g_slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(DeathNotice::destroy)},
                         {Py_tp_members, g_members},
                         {0, nullptr}};
PyType_Spec g_spec = {"firesteel.DeathNotice", sizeof(DeathNotice), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, g_slots};

PyRef new_notice(Holdings* owner) {
  static auto* type = reinterpret_cast<PyTypeObject*>(python::checked(PyType_FromSpec(&g_spec)).release());
  auto* notice = PyObject_New(DeathNotice, type);
  PyRef held = python::checked(reinterpret_cast<PyObject*>(notice));
  notice->vectorcall = &DeathNotice::call;
  notice->owner = owner;
  return held;
}

}  // namespace

bool Holdings::is_weak(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (!PyType_SUPPORTS_WEAKREFS(type)) return false;
  if (PyType_Check(object)) return reinterpret_cast<PyTypeObject*>(object)->tp_flags & Py_TPFLAGS_HEAPTYPE;
  // Other objects of C classes are often made anew at each access, as a bound builtin is: nobody else holds them.
  return PyFunction_Check(object) || PyCode_Check(object) || PyModule_Check(object) || python::is_tensor(object) ||
         (type->tp_flags & Py_TPFLAGS_HEAPTYPE);
}

Holdings::~Holdings() {
  if (notice_) reinterpret_cast<DeathNotice*>(notice_.get())->owner = nullptr;
}

PyObject* Holdings::hold(PyObject* object) {
  if (!object || weak_.count(object)) return object;
  if (is_weak(object)) {
    if (!notice_) notice_ = new_notice(this);
    if (PyRef reference = PyRef::steal(PyWeakref_NewRef(object, notice_.get()))) {
      weak_.emplace(object, std::move(reference));
      return object;
    }
    PyErr_Clear();  // a class may refuse, and memory may be short: then it lives as long as the entry
  }
  return keep(object);
}

PyObject* Holdings::keep(PyObject* object) {
  if (object) kept_.push_back(PyRef::borrow(object));
  return object;
}

bool Holdings::has_lost(PyObject* object) const {
  auto found = weak_.find(object);
  return found != weak_.end() && PyWeakref_GET_OBJECT(found->second.get()) == Py_None;
}

void Holdings::on_death(std::weak_ptr<const void> listener, std::function<void()> action) {
  std::erase_if(on_death_, [](const auto& known) { return known.first.expired(); });
  on_death_.emplace_back(std::move(listener), std::move(action));
}

void Holdings::died() {
  if (std::exchange(dead_, true)) return;
  for (const auto& [listener, action] : std::exchange(on_death_, {})) {
    if (!listener.expired()) action();
  }
}

std::vector<PyRef> Holdings::pin_all() const {
  std::vector<PyRef> pins;
  if (dead_) return pins;
  for (const auto& [object, reference] : weak_) pins.push_back(PyRef::borrow(object));
  pins.insert(pins.end(), kept_.begin(), kept_.end());
  return pins;
}

int Holdings::traverse(visitproc visit, void* arg) const {
  for (const PyRef& object : kept_) Py_VISIT(object.get());
  return 0;
}

}  // namespace firesteel::guards
