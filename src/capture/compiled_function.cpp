// The callable's Python type; calls go to its region.
#include "capture/compiled_function.h"

#include <Python.h>
#include <structmember.h>

#include <c10/util/SmallVector.h>

#include "capture/callables.h"
#include "python/constants.h"
#include "python/errors.h"

namespace firesteel::capture {
namespace {

struct CompiledFunction {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* callable;  // as given
  PyObject* function;  // the Python function under it
  PyObject* self;      // of a bound method, or null
  PyObject* dict;
  PyObject* weak_references;
  Region* region;
};

PyTypeObject* g_compiled_type = nullptr;

CompiledFunction* as_compiled(PyObject* object) { return reinterpret_cast<CompiledFunction*>(object); }

// One call as the function underneath gets it.
struct Arguments {
  Arguments(const CompiledFunction* compiled, PyObject* const* args, size_t count, PyObject* keywords)
      : positional(PyVectorcall_NARGS(count)), keywords(keywords), raw(args) {
    if (!compiled->self) return;
    with_self.push_back(compiled->self);
    with_self.append(args, args + positional + (keywords ? PyTuple_GET_SIZE(keywords) : 0));
    raw = with_self.data();
    ++positional;
  }
  size_t positional;
  PyObject* keywords;
  PyObject* const* raw;
  c10::SmallVector<PyObject*, 8> with_self;
};

PyObject* vectorcall(PyObject* self, PyObject* const* args, size_t count, PyObject* keywords) {
  try {
    CompiledFunction* compiled = as_compiled(self);
    const Arguments given(compiled, args, count, keywords);
    // Inside a trace the function is part of what is traced.
    if (is_tracing()) return PyObject_Vectorcall(compiled->function, given.raw, given.positional, given.keywords);
    return compiled->region->call(compiled->function, {given.raw, given.positional, given.keywords});
  } catch (...) {
    python::set_python_error_or_runtime_error(std::current_exception());
    return nullptr;
  }
}

PyObject* bind(PyObject* self, PyObject* object, PyObject*) {
  if (!object || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  CompiledFunction* compiled = as_compiled(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(compiled->callable);
  Py_VISIT(compiled->function);
  Py_VISIT(compiled->self);
  Py_VISIT(compiled->dict);
  return compiled->region ? compiled->region->traverse(visit, arg) : 0;
}

int clear(PyObject* self) {
  CompiledFunction* compiled = as_compiled(self);
  Py_CLEAR(compiled->dict);
  if (compiled->region) compiled->region->clear();
  return 0;
}

void destroy(PyObject* self) {
  CompiledFunction* compiled = as_compiled(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (compiled->weak_references) PyObject_ClearWeakRefs(self);
  delete std::exchange(compiled->region, nullptr);
  Py_CLEAR(compiled->dict);
  Py_CLEAR(compiled->callable);
  Py_CLEAR(compiled->function);
  Py_CLEAR(compiled->self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

PyObject* represent(PyObject* self) {
  return PyUnicode_FromFormat("<firesteel compiled function %R>", as_compiled(self)->callable);
}

PyMemberDef g_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CompiledFunction, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(CompiledFunction, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(CompiledFunction, weak_references), READONLY, nullptr},
    {"_callable", T_OBJECT, offsetof(CompiledFunction, callable), READONLY, "what was compiled"},
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
    "firesteel.CompiledFunction", sizeof(CompiledFunction), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, g_slots};

}  // namespace

void make_nonstrict_type(PyObject* module);

void make_callable_types(PyObject* module) {
  g_compiled_type = reinterpret_cast<PyTypeObject*>(python::checked(PyType_FromSpec(&g_spec)).release());
  python::check(PyModule_AddObjectRef(module, "CompiledFunction", reinterpret_cast<PyObject*>(g_compiled_type)) == 0);
  make_nonstrict_type(module);
}

PyRef new_compiled_function(PyObject* callable, const RegionOptions& options) {
  auto* made = PyObject_GC_New(CompiledFunction, g_compiled_type);
  PyRef held = python::checked(reinterpret_cast<PyObject*>(made));
  const bool bound = PyMethod_Check(callable);
  made->vectorcall = &vectorcall;
  made->callable = Py_NewRef(callable);
  made->function = Py_NewRef(bound ? PyMethod_GET_FUNCTION(callable) : callable);
  made->self = bound ? Py_NewRef(PyMethod_GET_SELF(callable)) : nullptr;
  made->dict = nullptr;
  made->weak_references = nullptr;
  made->region = new Region(options);
  PyObject_GC_Track(held.get());
  return held;
}

const Region* region_of(PyObject* object) {
  return g_compiled_type && Py_IS_TYPE(object, g_compiled_type) ? as_compiled(object)->region : nullptr;
}

PyObject* compiled_callable(PyObject* object) {
  return g_compiled_type && Py_IS_TYPE(object, g_compiled_type) ? as_compiled(object)->callable : nullptr;
}

bool is_own_callable(PyObject* object) { return compiled_callable(object) || nonstrict_callable(object); }

}  // namespace firesteel::capture
