// A function whose results are laid flat: what a node calls where an opaque function gives more than tuples, lists and
// dicts of tensors.
#include "capture/callable_type.h"
#include "capture/callables.h"
#include "python/pytree.h"

namespace firesteel::capture {
namespace {

struct FlatFields {
  static constexpr const char* kName = "firesteel.FlatCaller";
  static constexpr const char* kRepr = "<firesteel flat caller of %R>";

  PyRef function;
  Tree tree;

  PyObject* wrapped() const { return function.get(); }
  static PyObject* call(PyObject* self, PyObject* const* args, size_t count, PyObject* keywords);
  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(function.get());
    return 0;
  }
  void clear() {}
};
using FlatType = CallableType<FlatFields>;

PyObject* FlatFields::call(PyObject* self, PyObject* const* args, size_t count, PyObject* keywords) {
  try {
    const FlatFields& flat = *FlatType::of(self);
    PyRef result = python::checked(PyObject_Vectorcall(flat.function.get(), args, count, keywords));
    std::vector<PyRef> leaves;
    python::flatten_like(flat.tree, result.get(), "result", /*any_order=*/false, leaves);
    PyRef tuple = python::checked(PyTuple_New(static_cast<Py_ssize_t>(leaves.size())));
    for (size_t i = 0; i < leaves.size(); ++i) PyTuple_SET_ITEM(tuple.get(), i, leaves[i].release());
    return tuple.release();
  } catch (...) {
    python::set_python_error_or_runtime_error(std::current_exception());
    return nullptr;
  }
}

}  // namespace

void make_flat_caller_type(PyObject* module) { FlatType::install(module); }

PyRef new_flat_caller(PyObject* function, Tree tree) {
  PyRef made = FlatType::make({PyRef::borrow(function), std::move(tree)});
  for (const char* name : {"__name__", "__qualname__", "__module__"}) {
    if (PyRef value = python::attribute(function, name))
      python::check(PyObject_SetAttrString(made.get(), name, value.get()) == 0);
  }
  return made;
}

}  // namespace firesteel::capture
