// A type of its own, so that no C code takes it for a string: each of its slots gives the capture up.
#include "capture/tensor_text.h"

#include "capture/capture.h"
#include "capture/frame_hook.h"
#include "python/errors.h"

namespace firesteel::capture {
namespace {

PyTypeObject* s_type = nullptr;

constexpr const char* kWhat = "a text that shows a tensor or an address is looked at";

// A break crosses C code as an error that nobody sees.
void give_up() {
  if (Capture* capture = current_capture(); capture && !capture->broken) {
    try {
      capture->stop(BreakReason::DataDependent, kWhat);
    } catch (const Break& found) {
      capture->broken = found;
    }
  }
  PyErr_SetString(PyExc_RuntimeError, "the text of a tensor that was traced is looked at: it has none");
}

PyObject* no_object(PyObject*) {
  give_up();
  return nullptr;
}
PyObject* no_object_of_two(PyObject*, PyObject*) {
  give_up();
  return nullptr;
}
PyObject* no_comparison(PyObject*, PyObject*, int) {
  give_up();
  return nullptr;
}
Py_hash_t no_hash(PyObject*) {
  give_up();
  return -1;
}
int no_truth(PyObject*) {
  give_up();
  return -1;
}
Py_ssize_t no_length(PyObject*) {
  give_up();
  return -1;
}
int no_contents(PyObject*, PyObject*) {
  give_up();
  return -1;
}

void destroy(PyObject* self) {
  PyRef type = PyRef::steal(reinterpret_cast<PyObject*>(Py_TYPE(self)));  // a heap type is held by each of its objects
  PyObject_Free(self);
}

}  // namespace

void make_tensor_text_type(PyObject* module) {
  static PyType_Slot slots[] = {{Py_tp_repr, reinterpret_cast<void*>(&no_object)},
                                {Py_tp_str, reinterpret_cast<void*>(&no_object)},
                                {Py_tp_hash, reinterpret_cast<void*>(&no_hash)},
                                {Py_tp_richcompare, reinterpret_cast<void*>(&no_comparison)},
                                {Py_tp_iter, reinterpret_cast<void*>(&no_object)},
                                {Py_tp_getattro, reinterpret_cast<void*>(&no_object_of_two)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(&destroy)},
                                {Py_nb_bool, reinterpret_cast<void*>(&no_truth)},
                                {Py_nb_add, reinterpret_cast<void*>(&no_object_of_two)},
                                {Py_nb_multiply, reinterpret_cast<void*>(&no_object_of_two)},
                                {Py_nb_remainder, reinterpret_cast<void*>(&no_object_of_two)},
                                {Py_sq_length, reinterpret_cast<void*>(&no_length)},
                                {Py_sq_contains, reinterpret_cast<void*>(&no_contents)},
                                {Py_mp_length, reinterpret_cast<void*>(&no_length)},
                                {Py_mp_subscript, reinterpret_cast<void*>(&no_object_of_two)},
                                {0, nullptr}};
  static PyType_Spec spec = {"firesteel.TextOfTensor", sizeof(PyObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  s_type = reinterpret_cast<PyTypeObject*>(python::checked(PyType_FromSpec(&spec)).release());
  python::check(PyModule_AddObjectRef(module, "TextOfTensor", reinterpret_cast<PyObject*>(s_type)) == 0);
}

python::PyRef new_tensor_text(Capture& capture) {
  return capture.made(python::checked(reinterpret_cast<PyObject*>(PyObject_New(PyObject, s_type))));
}

bool is_tensor_text(PyObject* object) { return Py_IS_TYPE(object, s_type); }

void stop_at_tensor_text(Capture& capture, PyObject* value) {
  if (is_tensor_text(value)) capture.stop(BreakReason::DataDependent, kWhat);
  if (PyTuple_Check(value) || PyList_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
      stop_at_tensor_text(capture, PySequence_Fast_GET_ITEM(value, i));
  } else if (PyDict_CheckExact(value)) {
    Py_ssize_t position = 0;
    PyObject* item = nullptr;
    while (PyDict_Next(value, &position, nullptr, &item)) stop_at_tensor_text(capture, item);
  }
}

}  // namespace firesteel::capture
