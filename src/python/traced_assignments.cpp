// Hooks in the setters of torch.Tensor that could carry a traced tensor out of its trace, or real memory into it.
#include <array>
#include <utility>

#include <fmt/format.h>

#include "python/traced_tensors.h"

namespace firesteel::python {
namespace {

constexpr std::array<const char*, 2> kAttributes = {"data", "grad"};
std::array<setter, kAttributes.size()> g_setters{};
PyCFunction g_swap = nullptr;

[[noreturn]] void refuse(const std::string& what) {
  FS_RAISE(MutationError,
           "{} would mix a traced tensor with one that is not traced\n"
           "  try: return the new value from the traced function and assign it outside",
           what);
}

template <size_t I>
int set_attribute(PyObject* self, PyObject* value, void* closure) {
  return at_border<int>(-1, [&] {
    const bool empty = !value || value == Py_None;
    if (!empty && is_traced_object(self) != is_traced_object(value))
      refuse(fmt::format("assigning .{}", kAttributes[I]));
    return g_setters[I](self, value, closure);
  });
}

template <size_t I>
void hook(PyObject* tensor_base) {
  PyRef descriptor = attribute(tensor_base, kAttributes[I]);
  if (!descriptor || !Py_IS_TYPE(descriptor.get(), &PyGetSetDescr_Type)) return;
  PyGetSetDef* definition = reinterpret_cast<PyGetSetDescrObject*>(descriptor.get())->d_getset;
  g_setters[I] = std::exchange(definition->set, &set_attribute<I>);
}

// torch._C._swap_tensor_impl(a, b), under torch.utils.swap_tensors and some ways to load or move modules.
PyObject* swap(PyObject* self, PyObject* args) {
  return at_border<PyObject*>(nullptr, [&] {
    if (PyTuple_Check(args) && PyTuple_GET_SIZE(args) == 2 &&
        is_traced_object(PyTuple_GET_ITEM(args, 0)) != is_traced_object(PyTuple_GET_ITEM(args, 1))) {
      refuse("swapping tensors");
    }
    return g_swap(self, args);
  });
}

}  // namespace

void watch_assignments() {
  if (g_setters[0]) return;
  PyRef torch_c = checked(PyImport_ImportModule("torch._C"));
  PyRef tensor_base = checked(PyObject_GetAttrString(torch_c.get(), "TensorBase"));
  [&]<size_t... I>(std::index_sequence<I...>) { (hook<I>(tensor_base.get()), ...); }
  (std::make_index_sequence<kAttributes.size()>());
  PyRef swapper = attribute(torch_c.get(), "_swap_tensor_impl");
  if (swapper && PyCFunction_Check(swapper.get())) {
    PyMethodDef* method = reinterpret_cast<PyCFunctionObject*>(swapper.get())->m_ml;
    if (method->ml_flags == METH_VARARGS) g_swap = std::exchange(method->ml_meth, &swap);
  }
}

}  // namespace firesteel::python
