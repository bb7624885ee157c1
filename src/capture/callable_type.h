// What Firesteel's own callables have in common as Python types: they are called without a frame, bind as methods do,
// and have a dict and weak references, so that functools.wraps works on them.
#pragma once

#include <Python.h>
#include <structmember.h>

#include <new>
#include <utility>

#include "python/errors.h"

namespace firesteel::capture {

// `Fields` holds the type's own state:
//   static constexpr const char *kName, *kRepr   `firesteel.X`, and a format for what it wraps
//   PyObject* wrapped() const                    what Python sees as `_callable`
//   static PyObject* call(PyObject* self, PyObject* const* args, size_t count, PyObject* keywords)
//   int traverse(visitproc, void*) const; void clear()
template <class Fields>
class CallableType {
 public:
  // Makes the type and adds it to the module; once.
  static void install(PyObject* module) {
    static PyMemberDef members[] = {
        {"__vectorcalloffset__", T_PYSSIZET, offsetof(Object, vectorcall), READONLY, nullptr},
        {"__dictoffset__", T_PYSSIZET, offsetof(Object, dict), READONLY, nullptr},
        {"__weaklistoffset__", T_PYSSIZET, offsetof(Object, weak_references), READONLY, nullptr},
        {nullptr, 0, 0, 0, nullptr}};
    static PyGetSetDef getset[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                                   {"_callable", &get_wrapped, nullptr, "what it was made from", nullptr},
                                   {nullptr, nullptr, nullptr, nullptr, nullptr}};
    static PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                  {Py_tp_descr_get, reinterpret_cast<void*>(&bind)},
                                  {Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
                                  {Py_tp_clear, reinterpret_cast<void*>(&clear)},
                                  {Py_tp_dealloc, reinterpret_cast<void*>(&destroy)},
                                  {Py_tp_repr, reinterpret_cast<void*>(&represent)},
                                  {Py_tp_members, members},
                                  {Py_tp_getset, getset},
                                  {0, nullptr}};
    static PyType_Spec spec = {
        Fields::kName, sizeof(Object), 0,
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        slots};
    s_type = reinterpret_cast<PyTypeObject*>(python::checked(PyType_FromSpec(&spec)).release());
    const char* short_name = std::strrchr(Fields::kName, '.') + 1;
    python::check(PyModule_AddObjectRef(module, short_name, reinterpret_cast<PyObject*>(s_type)) == 0);
  }

  static python::PyRef make(Fields fields) {
    auto* made = PyObject_GC_New(Object, s_type);
    python::PyRef held = python::checked(reinterpret_cast<PyObject*>(made));
    made->vectorcall = &Fields::call;
    made->dict = made->weak_references = nullptr;
    new (&made->fields) Fields(std::move(fields));
    PyObject_GC_Track(held.get());
    return held;
  }

  // Null for any other object.
  static Fields* of(PyObject* object) { return s_type && Py_IS_TYPE(object, s_type) ? &as(object)->fields : nullptr; }

 private:
  struct Object {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject* dict;
    PyObject* weak_references;
    Fields fields;
  };
  static Object* as(PyObject* object) { return reinterpret_cast<Object*>(object); }

  static PyObject* get_wrapped(PyObject* self, void*) { return Py_NewRef(as(self)->fields.wrapped()); }
  static PyObject* bind(PyObject* self, PyObject* object, PyObject*) {
    if (!object || object == Py_None) return Py_NewRef(self);
    return PyMethod_New(self, object);
  }
  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(as(self)->dict);
    return as(self)->fields.traverse(visit, arg);
  }
  static int clear(PyObject* self) {
    Py_CLEAR(as(self)->dict);
    as(self)->fields.clear();
    return 0;
  }
  static void destroy(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (as(self)->weak_references) PyObject_ClearWeakRefs(self);
    as(self)->fields.~Fields();
    Py_CLEAR(as(self)->dict);
    PyObject_GC_Del(self);
    Py_DECREF(type);
  }
  static PyObject* represent(PyObject* self) { return PyUnicode_FromFormat(Fields::kRepr, as(self)->fields.wrapped()); }

  inline static PyTypeObject* s_type = nullptr;
};

}  // namespace firesteel::capture
