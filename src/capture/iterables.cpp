// Taking iterables apart before C code sees them.
#include "capture/iterables.h"

#include "capture/callables.h"
#include "capture/cpython/frame_shim.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {

using python::checked;

bool is_iterable(PyObject* value) {
  return !PyUnicode_Check(value) && !PyBytes_Check(value) && !PyType_Check(value) &&
         (PyList_Check(value) || PyTuple_Check(value) || PyDict_Check(value) || PyAnySet_Check(value) ||
          PyRange_Check(value) || PyIter_Check(value) || fs_view_dict(value) || python::is_tensor(value) ||
          (is_python_class(Py_TYPE(value)) && Py_TYPE(value)->tp_iter));
}

PyRef items_of(Capture& capture, PyObject* iterable) {
  PyRef iterator = get_iterator(capture, iterable);
  PyRef items = checked(PyList_New(0));
  while (PyRef item = next_of(capture, iterator.get())) python::check(PyList_Append(items.get(), item.get()) == 0);
  return items;
}

PyRef dict_of_mapping(Capture& capture, PyObject* mapping) {
  if (!is_python_class(Py_TYPE(mapping)) || PyType_Check(mapping)) return {};
  PyRef method = find_attribute(capture, mapping, interned("keys").get());
  if (!method) return {};
  PyRef keys = get_iterator(capture, call(capture, method.get(), {}).get());
  PyRef items = checked(PyDict_New());
  while (PyRef key = next_of(capture, keys.get())) {
    watch_hash(capture, key.get());
    PyRef item = get_item(capture, mapping, key.get());
    python::check(PyDict_SetItem(items.get(), key.get(), item.get()) == 0);
  }
  return capture.made(std::move(items));
}

void settle(Capture& capture, PyRef& value) {
  if (PyIter_Check(value.get()) || (is_iterable(value.get()) && is_python_class(Py_TYPE(value.get()))))
    value = items_of(capture, value.get());
}

PyRef result_of(Capture& capture, PyRef result) {
  if (is_guardable_constant(result.get())) return result;
  if (capture.source_of(result.get()) || python::is_tensor(result.get())) return capture.adopt(std::move(result));
  return capture.made(std::move(result));
}

}  // namespace firesteel::capture
