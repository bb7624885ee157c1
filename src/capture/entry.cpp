// The road of one capture: arguments, trace with the interpreter inside, result, guards, runner.
#include "capture/entry.h"

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include "capture/callables.h"
#include "capture/frame_interpreter.h"
#include "compiler.h"
#include "python/errors.h"
#include "python/pytree.h"
#include "python/tensor_objects.h"
#include "python/traced_tensors.h"
#include "python/user_frames.h"

namespace firesteel::capture {
namespace {

// A finalizer that a collection runs in the middle of a capture would be taken for the function's own doing.
class NoCollection {
 public:
  NoCollection() : was_on_(PyGC_Disable() == 1) {}
  ~NoCollection() {
    if (was_on_) PyGC_Enable();
  }
  NoCollection(const NoCollection&) = delete;
  NoCollection& operator=(const NoCollection&) = delete;

 private:
  bool was_on_;
};

constexpr int kDeepestArgument = 8;

// Tensors of the call, also inside containers, are inputs of the graph; all that leads to them is guarded.
void collect_tensors(Capture& capture, PyObject* value, const Source* source, int depth) {
  if (python::is_exact_tensor(value)) {
    if (guards::is_plain_real(python::unpack(value))) capture.add_argument(value, source);
    return;
  }
  if (depth >= kDeepestArgument || !(is_sequence(value) || PyDict_CheckExact(value))) return;
  std::vector<std::pair<PyObject*, const Source*>> children;
  if (is_sequence(value)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
      children.emplace_back(PySequence_Fast_GET_ITEM(value, i), capture.sources.item(source, i));
    }
  } else {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *item = nullptr;
    while (PyDict_Next(value, &position, &key, &item)) {
      if (is_guardable_constant(key)) children.emplace_back(item, capture.sources.item(source, key));
    }
  }
  const size_t before = capture.arguments.size();
  for (const auto& [child, at] : children) collect_tensors(capture, child, at, depth + 1);
  if (capture.arguments.size() > before) capture.admit(value, source);
}

class Attempt {
 public:
  Attempt(PyThreadState* state, FsFrame* frame, PyObject* function, const CallShape& shape, PyObject* const* arguments)
      : state_(state),
        frame_(frame),
        function_(function),
        shape_(shape),
        arguments_(arguments),
        capture(std::string(python::text_of(fs_frame_code(frame)->co_name))) {}

  Trace run(Backend backend) {
    capture.admit(function_, capture.sources.pinned(function_, capture.graph.name));
    parameters_ = bind_parameters(capture, function_, shape_);
    for (const Parameter& parameter : parameters_) {
      if (parameter.source && parameter.source->kind == AccessKind::Argument) collect(parameter.source);
      for (const Source* item : parameter.items) collect(item);
    }
    std::vector<at::Tensor> tensors;
    for (const PyRef& tensor : capture.arguments) tensors.push_back(python::unpack(tensor.get()));
    TraceOptions options;
    options.name = capture.graph.name;
    options.grad = backend == Backend::AotEager && c10::GradMode::is_enabled() && !c10::InferenceMode::is_enabled();
    options.run_backward = [](const std::function<void()>& backward) {
      python::GilRelease no_gil;
      backward();
    };
    return trace([&](const std::vector<at::Tensor>& stand_ins) { return interpret(stand_ins); }, tensors, options);
  }

 private:
  void collect(const Source* source) { collect_tensors(capture, arguments_[source->index], source, 0); }

  FunctionResult interpret(const std::vector<at::Tensor>& stand_ins) {
    capture.enter(stand_ins);
    FrameInterpreter interpreter(capture, state_, frame_);
    PyObject** locals = fs_frame_locals(frame_);
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (parameters_[i].collects) {
        collect_rest(locals[i], parameters_[i]);
      } else {
        interpreter.set_local_source(i, parameters_[i].source);
      }
    }
    PyRef result = interpreter.run();
    std::unordered_set<PyObject*> seen;
    refuse_known_containers(result.get(), seen);
    return flatten(capture.substitute(result.get()).get());
  }

  // `*args` and `**kwargs` are made anew at every call; what they hold are arguments.
  void collect_rest(PyObject* container, const Parameter& parameter) {
    capture.made(PyRef::borrow(container));
    PyRef values = PyTuple_Check(container) ? PyRef::borrow(container) : python::checked(PyDict_Values(container));
    for (size_t i = 0; i < parameter.items.size(); ++i) {
      PyRef value = python::checked(PySequence_GetItem(values.get(), static_cast<Py_ssize_t>(i)));
      if (!python::is_tensor(value.get()))
        capture.admit(value.get(), parameter.items[i]);
      else
        capture.remember(value.get(), parameter.items[i]);
    }
  }

  FunctionResult flatten(PyObject* result) {
    python::Flat flat;
    try {
      flat = python::flatten_result(result, function_);
    } catch (...) {
      python::set_python_error(std::current_exception());
      PyErr_Clear();
      capture.stop(BreakReason::Result, fmt::format("a {} or something inside it", Py_TYPE(result)->tp_name));
    }
    if (!all_guarded(flat.tree)) capture.stop(BreakReason::Result, "a constant that cannot be guarded by its value");
    FunctionResult returned;
    for (const PyRef& leaf : flat.leaves) {
      capture.graph.outputs.emplace_back(capture.value_of(leaf.get()));
      returned.tensors.push_back(python::unpack(leaf.get()));
    }
    capture.graph.output_tree = flat.tree;
    returned.tree = std::move(flat.tree);
    return returned;
  }

  // A container from outside must be given back itself, and one made inside must not become two.
  void refuse_known_containers(PyObject* result, std::unordered_set<PyObject*>& seen) {
    const bool sequence = PyList_Check(result) || PyTuple_Check(result);
    if (!sequence && !PyDict_Check(result) && !PyAnySet_Check(result)) return;
    if (is_guardable_constant(result)) return;
    if (capture.source_of(result))
      capture.stop(BreakReason::Result, fmt::format("a {} from outside", Py_TYPE(result)->tp_name));
    if (!PyTuple_Check(result) && !seen.insert(result).second) {
      capture.stop(BreakReason::Result, fmt::format("the same {} twice", Py_TYPE(result)->tp_name));
    }
    if (PyDict_Check(result)) {
      Py_ssize_t position = 0;
      PyObject* value = nullptr;
      while (PyDict_Next(result, &position, nullptr, &value)) refuse_known_containers(value, seen);
    }
    for (Py_ssize_t i = 0; sequence && i < PySequence_Fast_GET_SIZE(result); ++i) {
      refuse_known_containers(PySequence_Fast_GET_ITEM(result, i), seen);
    }
  }

  PyThreadState* state_;
  FsFrame* frame_;
  PyObject* function_;
  const CallShape& shape_;
  PyObject* const* arguments_;
  std::vector<Parameter> parameters_;

 public:
  Capture capture;
};

// Tensors that C code reached by itself were captured without a guard.
void refuse_unknown_captures(const Trace& trace, const Capture& capture) {
  if (capture.ran_opaque_python) return;
  std::unordered_set<const c10::TensorImpl*> known;
  for (const Input& input : capture.graph.inputs) {
    if (input.captured.defined()) known.insert(input.captured.unsafeGetTensorImpl());
  }
  for (const Input& input : trace.joint.graph.inputs) {
    if (input.role != InputRole::Captured || !input.captured.defined()) continue;
    c10::TensorImpl* impl = input.captured.unsafeGetTensorImpl();
    if (!known.count(impl) && impl->pyobj_slot()->load_pyobj()) {
      throw Break{BreakReason::Origin, "a tensor that an operator found by itself", {}, {}};
    }
  }
}

// What the tracer refused, or a Python error outside any instruction; an interrupt is thrown on.
Break break_for_current_exception() {
  try {
    python::set_python_error(std::current_exception());
  } catch (const std::exception& error) {
    return {BreakReason::Internal, error.what(), {}, {}};
  }
  if (!PyErr_ExceptionMatches(PyExc_Exception)) python::throw_python_error();
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyRef type_ref = PyRef::steal(type), value_ref = PyRef::steal(value), traceback_ref = PyRef::steal(traceback);
  PyRef text = value ? PyRef::steal(PyObject_Str(value)) : PyRef();
  if (!text) PyErr_Clear();
  const std::string message(python::text_of(text.get()));
  return {BreakReason::Trace, message.substr(0, message.find('\n')), {}, {}};
}

}  // namespace

std::shared_ptr<Entry> capture_frame(PyThreadState* state, FsFrame* frame, PyObject* function, const CallShape& shape,
                                     PyObject* const* arguments, Backend backend) {
  python::watch_data_reads();
  NoCollection no_collection;
  python::SourceScope lines;
  const guards::Ambient ambient = guards::Ambient::current();
  Attempt attempt(state, frame, function, shape, arguments);
  Capture& capture = attempt.capture;
  std::optional<Break> broken;
  std::optional<Trace> trace;
  std::optional<Executable> executable;
  try {
    python::with_torch_warnings([&] {
      trace = attempt.run(backend);
      refuse_unknown_captures(*trace, capture);
      if (backend == Backend::AotEager) executable.emplace(compile_trace(std::move(*trace)));
    });
  } catch (const Break& found) {
    broken = found;
  } catch (...) {
    broken = break_for_current_exception();
  }
  const std::vector<const Source*> wanted = broken ? std::vector<const Source*>() : capture.input_sources;
  guards::GuardProgram program(capture.sources, std::move(capture.guards), wanted);
  std::vector<uint32_t> slots;
  for (const Source* source : wanted) slots.push_back(program.slot_of(source));
  std::unique_ptr<Runner> runner;
  if (!broken && backend == Backend::Eager) runner = make_eager_runner(capture.graph, std::move(slots));
  if (!broken && backend == Backend::AotEager) {
    slots.resize(capture.arguments.size());  // the executable holds what was captured
    runner = make_aot_runner(std::move(*executable), std::move(slots));
  }
  return std::make_shared<Entry>(Entry{shape, ambient, std::move(program), std::move(runner), std::move(broken),
                                       broken ? "" : capture.graph.str()});
}

}  // namespace firesteel::capture
