// The object @nonstrict_trace makes: outside a capture it just calls its function; inside it is one opaque node.
#include <Python.h>
#include <structmember.h>

#include "capture/callables.h"
#include "capture/compiled_function.h"
#include "python/errors.h"

namespace firesteel::capture {
namespace {

struct NonstrictFunction {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* function;
  PyObject* dict;
  PyObject* weak_references;
};

PyTypeObject* g_type = nullptr;

NonstrictFunction* as_nonstrict(PyObject* object) { return reinterpret_cast<NonstrictFunction*>(object); }

PyObject* forward(PyObject* self, PyObject* const* args, size_t count, PyObject* keywords) {
  return PyObject_Vectorcall(as_nonstrict(self)->function, args, count, keywords);
}

PyObject* bind(PyObject* self, PyObject* object, PyObject*) {
  if (!object || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(as_nonstrict(self)->function);
  Py_VISIT(as_nonstrict(self)->dict);
  return 0;
}

int clear(PyObject* self) {
  Py_CLEAR(as_nonstrict(self)->dict);
  return 0;
}

void destroy(PyObject* self) {
  NonstrictFunction* nonstrict = as_nonstrict(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (nonstrict->weak_references) PyObject_ClearWeakRefs(self);
  Py_CLEAR(nonstrict->dict);
  Py_CLEAR(nonstrict->function);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

PyObject* represent(PyObject* self) {
  return PyUnicode_FromFormat("<firesteel nonstrict function %R>", as_nonstrict(self)->function);
}

PyMemberDef g_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(NonstrictFunction, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(NonstrictFunction, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(NonstrictFunction, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef g_getset[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                          {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot g_slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                         {Py_tp_descr_get, reinterpret_cast<void*>(bind)},
                         {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                         {Py_tp_clear, reinterpret_cast<void*>(clear)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                         {Py_tp_repr, reinterpret_cast<void*>(represent)},
                         {Py_tp_members, g_members},
                         {Py_tp_getset, g_getset},
                         {0, nullptr}};
PyType_Spec g_spec = {
    "firesteel.NonstrictFunction", sizeof(NonstrictFunction), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, g_slots};

}  // namespace

void make_nonstrict_type(PyObject* module) {
  g_type = reinterpret_cast<PyTypeObject*>(python::checked(PyType_FromSpec(&g_spec)).release());
  python::check(PyModule_AddObjectRef(module, "NonstrictFunction", reinterpret_cast<PyObject*>(g_type)) == 0);
}

PyRef new_nonstrict_function(PyObject* function) {
  auto* made = PyObject_GC_New(NonstrictFunction, g_type);
  PyRef held = python::checked(reinterpret_cast<PyObject*>(made));
  made->vectorcall = &forward;
  made->function = Py_NewRef(function);
  made->dict = nullptr;
  made->weak_references = nullptr;
  PyObject_GC_Track(held.get());
  return held;
}

PyObject* nonstrict_callable(PyObject* object) {
  return g_type && Py_IS_TYPE(object, g_type) ? as_nonstrict(object)->function : nullptr;
}

}  // namespace firesteel::capture
