// The frames of functions called inside: followed in place of CPython's running them.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "capture/annotations.h"
#include "capture/callables.h"
#include "capture/frame_hook.h"
#include "capture/frame_interpreter.h"
#include "python/errors.h"

namespace firesteel::capture {
namespace {

// Arguments of a function that C code calls: an object that capture has not seen may have existed before, and what is
// done to it would go unnoticed.
void look_at_arguments(Capture& capture, FsFrame* frame) {
  PyCodeObject* code = fs_frame_code(frame);
  const int count = code->co_argcount + code->co_kwonlyargcount;
  for (int i = 0; i < count; ++i) {
    PyObject* value = fs_frame_locals(frame)[i];
    if (!value || PyTuple_Check(value) || PyType_Check(value) || PyExceptionInstance_Check(value)) continue;
    // A node takes tensors and constants: any other object was made for the call, as contexts of autograd are.
    if (capture.unrecorded && capture.is_unknown(value)) capture.made(PyRef::borrow(value));
    if (is_guardable_constant(value) || !is_python_class(Py_TYPE(value)) || !capture.is_unknown(value)) continue;
    const bool being_made = std::any_of(capture.instantiating.begin(), capture.instantiating.end(),
                                        [&](PyTypeObject* type) { return PyObject_TypeCheck(value, type); });
    if (!being_made)
      capture.stop(BreakReason::Origin, fmt::format("a {} that C code passes on", Py_TYPE(value)->tp_name));
    capture.made(PyRef::borrow(value));
  }
}

// A tensor's hash is its address: two stand-ins are the same where the tensors are, which is all a set can tell. That
// of an operator of torch.ops never changes either.
bool is_hash_of_torch(PyCodeObject* code) {
  static const auto* own = [] {
    auto* codes = new std::array<PyObject*, 2>;
    const std::pair<const char*, const char*> places[] = {{"torch", "Tensor"}, {"torch._ops", "OpOverload"}};
    for (size_t i = 0; i < codes->size(); ++i) {
      PyRef module = python::checked(PyImport_ImportModule(places[i].first));
      PyRef type = python::checked(PyObject_GetAttrString(module.get(), places[i].second));
      PyRef hash = python::checked(PyObject_GetAttrString(type.get(), "__hash__"));
      (*codes)[i] = python::checked(PyObject_GetAttrString(hash.get(), "__code__")).release();
    }
    return codes;
  }();
  return std::find(own->begin(), own->end(), reinterpret_cast<PyObject*>(code)) != own->end();
}

// Code of torch.nn, which reads parameters.
bool is_of_modules(PyCodeObject* code) {
  return python::text_of(code->co_filename).find("/torch/nn/") != std::string_view::npos;
}

// While a module's forward() is followed, what is recorded belongs to that module.
class ModuleScope {
 public:
  ModuleScope(Capture& capture, FsFrame* frame) : capture_(capture) {
    const PyCodeObject* code = fs_frame_code(frame);
    PyObject* self = code->co_argcount > 0 ? fs_frame_locals(frame)[0] : nullptr;
    if (!self || python::text_of(code->co_name) != "forward" || !is_nn_module(self)) return;
    const Source* source = capture.source_of(self);
    capture.modules.push_back(source ? source->str() : Py_TYPE(self)->tp_name);
    PyRef type = python::checked(PyWeakref_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(self)), nullptr));
    PyRef here = python::checked(
        Py_BuildValue("((nsO))", reinterpret_cast<Py_ssize_t>(self), capture.modules.back().c_str(), type.get()));
    push_module_stack(capture, here);
    entered_ = true;
  }
  ~ModuleScope() {
    if (!entered_) return;
    capture_.modules.pop_back();
    capture_.module_stacks.pop_back();
  }
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  Capture& capture_;
  bool entered_ = false;
};

// Whether a break in it may be one of its own: the piece ends in the middle of it. A library's function runs as it is.
bool may_end_in(const Capture& capture, FsFrame* frame) {
  constexpr size_t kMost = 24;
  return capture.nests && capture.chain < kMost && !is_library(fs_frame_code(frame));
}

}  // namespace

PyObject* interpret_inlined(Capture& capture, PyThreadState* state, FsFrame* frame, int throwing) noexcept {
  PyRef result;
  PyObject* generator = fs_frame_generator(frame);
  try {
    if (capture.broken) throw *capture.broken;  // nothing runs any more
    const std::string_view name = python::text_of(fs_frame_code(frame)->co_name);
    if (fs_is_monitored(state)) capture.stop(BreakReason::Monitored, std::string(name));
    constexpr int kAsync = CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
    if (fs_frame_code(frame)->co_flags & kAsync) capture.stop(BreakReason::Generator, std::string(name));
    if (!generator && (fs_frame_code(frame)->co_flags & CO_GENERATOR)) return run_frame(state, frame);
    if (is_hash_of_torch(fs_frame_code(frame))) return run_frame(state, frame);
    if (capture.unrecorded && !is_of_modules(fs_frame_code(frame)) &&
        (is_of_torch(fs_frame_code(frame)) || is_library(fs_frame_code(frame))))
      return run_frame(state, frame, throwing);
    if (!generator && !fs_frame_is_fresh(state, frame)) capture.stop(BreakReason::Monitored, std::string(name));
    if (generator && !capture.is_made(generator)) stop_at_iterator(capture, generator);
    const bool expected = std::exchange(capture.expected, nullptr) == fs_frame_function(frame);
    const bool tail = std::exchange(capture.tail, false) && expected && may_end_in(capture, frame);
    if (!expected && !generator) look_at_arguments(capture, frame);
    const ModuleScope in_module(capture, frame);
    FrameInterpreter interpreter(capture, state, frame, tail ? FrameRole::Entered : FrameRole::Passing);
    switch (interpreter.run(throwing != 0)) {
      case Ending::Returned:
        result = interpreter.take_result();
        if (!expected) {
          result = capture.closed(std::move(result));
          capture.settle_deep(result.get());  // C code gets it, and may look at it
        }
        break;
      case Ending::Yielded:
        result = capture.closed(interpreter.take_result());
        capture.settle_deep(result.get());
        interpreter.store();
        fs_generator_suspend(generator);
        return result.release();
      case Ending::Stopped:
        // The values outlive the frame; all that waits for it is left in the same way.
        capture.stopped.push_back(interpreter.take_stopped());
        capture.stopping = true;
        capture.broken = Break{BreakReason::Control, "the piece ends here", {}, {}};
        break;
      case Ending::Raised:
        break;
    }
  } catch (const Break& found) {
    capture.broken = found;
  } catch (...) {
    python::set_python_error_or_runtime_error(std::current_exception());
  }
  // A break crosses CPython's frames as an error that nobody sees; closing a generator takes only this one in silence.
  if (capture.broken && generator && throwing) PyErr_Clear();
  if (capture.broken && !PyErr_Occurred()) {
    PyErr_SetString(generator && throwing ? PyExc_GeneratorExit : PyExc_RuntimeError, "the capture was given up");
  }
  return fs_frame_finish(state, frame, result.release());
}

}  // namespace firesteel::capture
