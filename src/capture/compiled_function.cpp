// The callable's fields; calls go to its region.
#include "capture/compiled_function.h"

#include <c10/util/SmallVector.h>

#include "capture/callable_type.h"
#include "capture/callables.h"
#include "capture/marked_function.h"
#include "capture/tensor_text.h"
#include "python/constants.h"
#include "python/errors.h"

namespace firesteel::capture {
namespace {

struct CompiledFields {
  static constexpr const char* kName = "firesteel.CompiledFunction";
  static constexpr const char* kRepr = "<firesteel compiled function %R>";

  PyRef callable;  // as given
  PyRef function;  // the Python function under it
  PyRef self;      // of a bound method, or empty
  std::unique_ptr<Region> region;

  PyObject* wrapped() const { return callable.get(); }
  static PyObject* call(PyObject* self, PyObject* const* args, size_t count, PyObject* keywords);
  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(callable.get());
    Py_VISIT(function.get());
    Py_VISIT(self.get());
    return region->traverse(visit, arg);
  }
  void clear() { region->clear(); }
};
using CompiledType = CallableType<CompiledFields>;

// One call as the function underneath gets it.
struct Arguments {
  Arguments(PyObject* self, PyObject* const* args, size_t count, PyObject* keywords)
      : positional(PyVectorcall_NARGS(count)), keywords(keywords), raw(args) {
    if (!self) return;
    with_self.push_back(self);
    with_self.append(args, args + positional + (keywords ? PyTuple_GET_SIZE(keywords) : 0));
    raw = with_self.data();
    ++positional;
  }
  size_t positional;
  PyObject* keywords;
  PyObject* const* raw;
  c10::SmallVector<PyObject*, 8> with_self;
};

PyObject* CompiledFields::call(PyObject* object, PyObject* const* args, size_t count, PyObject* keywords) {
  try {
    const CompiledFields& compiled = *CompiledType::of(object);
    const Arguments given(compiled.self.get(), args, count, keywords);
    PyObject* function = compiled.function.get();
    // Inside a trace the function is part of what is traced.
    if (is_tracing()) return PyObject_Vectorcall(function, given.raw, given.positional, given.keywords);
    return compiled.region->call(function, {given.raw, given.positional, given.keywords});
  } catch (...) {
    python::set_python_error_or_runtime_error(std::current_exception());
    return nullptr;
  }
}

}  // namespace

void make_callable_types(PyObject* module) {
  CompiledType::install(module);
  make_marked_type(module);
  make_flat_caller_type(module);
  make_followed_type(module);
  make_tensor_text_type(module);
}

PyRef new_compiled_function(PyObject* callable, const RegionOptions& options) {
  const bool bound = PyMethod_Check(callable);
  return CompiledType::make({PyRef::borrow(callable), PyRef::borrow(bound ? PyMethod_GET_FUNCTION(callable) : callable),
                             PyRef::borrow(bound ? PyMethod_GET_SELF(callable) : nullptr),
                             std::make_unique<Region>(options)});
}

const Region* region_of(PyObject* object) {
  const CompiledFields* compiled = CompiledType::of(object);
  return compiled ? compiled->region.get() : nullptr;
}

PyObject* compiled_callable(PyObject* object) {
  const CompiledFields* compiled = CompiledType::of(object);
  return compiled ? compiled->callable.get() : nullptr;
}

bool is_own_callable(PyObject* object) { return compiled_callable(object) || marked_callable(object); }

}  // namespace firesteel::capture
