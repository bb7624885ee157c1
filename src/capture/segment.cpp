// The road of one capture: arguments, trace with the interpreter inside, recipes, guards, runner.
#include "capture/segment.h"

#include <algorithm>
#include <chrono>

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include "capture/callables.h"
#include "capture/frame_hook.h"
#include "capture/frame_interpreter.h"
#include "capture/inference_mode.h"
#include "capture/marks.h"
#include "capture/opaque_state.h"
#include "capture/oracle.h"
#include "capture/recipe_maker.h"
#include "capture/result_kinds.h"
#include "compiler.h"
#include "python/errors.h"
#include "python/no_collection.h"
#include "python/pytree.h"
#include "python/pytree_nodes.h"
#include "python/tensor_objects.h"
#include "python/traced_tensors.h"
#include "python/user_frames.h"

namespace firesteel::capture {
namespace {

// Torch's modes and the exception being handled, put back at the end.
class KeepThreadState {
 public:
  explicit KeepThreadState(PyThreadState* state)
      : state_(state), handled_(PyRef::borrow(state->exc_info->exc_value)), modes_(TorchModes::current()) {}
  ~KeepThreadState() {
    PyRef old = PyRef::steal(state_->exc_info->exc_value);
    state_->exc_info->exc_value = PyRef(handled_).release();
    modes_.apply();
  }
  KeepThreadState(const KeepThreadState&) = delete;
  KeepThreadState& operator=(const KeepThreadState&) = delete;
  PyObject* handled() const { return handled_.get(); }
  const TorchModes& modes() const { return modes_; }

 private:
  PyThreadState* state_;
  PyRef handled_;
  TorchModes modes_;
};

constexpr int kDeepestArgument = 8;

// Of a class that the program has told how to take apart; its parts lie in its dict.
bool is_registered_object(PyObject* value) {
  return is_python_class(Py_TYPE(value)) && python::kind_of(value) && guards::instance_dict(value);
}

// Tensors of the call, also inside containers, are inputs of the graph; all that leads to them is guarded.
void collect_tensors(Capture& capture, PyObject* value, const Source* source, int depth) {
  if (python::is_exact_tensor(value)) {
    if (guards::is_plain_real(python::unpack(value))) capture.add_argument(value, source);
    return;
  }
  if (PyCell_Check(value)) {
    if (PyObject* held = PyCell_GET(value); held && python::is_exact_tensor(held)) {
      capture.remember(value, source);
      collect_tensors(capture, held, capture.sources.step(source, AccessKind::CellContents), depth);
    }
    return;
  }
  const bool registered = !PyDict_Check(value) && !PyTuple_Check(value) && !PyList_CheckExact(value);
  if (depth >= kDeepestArgument || (registered && !is_registered_object(value))) return;
  std::vector<std::pair<PyObject*, const Source*>> children;
  if (registered) {
    capture.add_guard({GuardKind::Type, source, PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(value)))});
    const Source* dict = capture.sources.step(source, AccessKind::InstanceDict);
    children.emplace_back(guards::instance_dict(value), dict);
  } else if (!PyDict_Check(value)) {
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
  Attempt(const SegmentStart& start, const BackendChoice& backend, long stop_at, bool locate_backward)
      : start_(start),
        backend_(backend),
        stop_at_(stop_at),
        code_(fs_frame_code(start.frame)),
        capture(std::string(python::text_of(code_->co_name))) {
    backward.locate = locate_backward;
  }

  // The call whose backward failed, or an earlier one of the same function: it comes later in the backward. Null where
  // that is not what failed, or not known.
  const Capture::CallMark* failed_call() const {
    if (!backward.began || !backward.node) return nullptr;
    const auto& marks = capture.call_marks;
    auto found =
        std::find_if(marks.begin(), marks.end(), [&](const auto& mark) { return *backward.node < mark.next_node; });
    if (found == marks.end()) return nullptr;
    return &*std::find_if(marks.begin(), found, [&](const auto& mark) { return mark.at.detail == found->at.detail; });
  }

  Trace run() {
    capture.runs_python_again = !backend_.runs_aten();
    function_source_ = capture.sources.function(capture.graph.name);
    capture.admit(start_.function, function_source_);
    start_.shape ? bind_call() : bind_frame();
    if (start_.moving) {
      for (const guards::SourcePath& path : *start_.moving) collect_moving(path);
    }
    std::vector<at::Tensor> tensors;
    for (const PyRef& tensor : capture.arguments) tensors.push_back(python::unpack(tensor.get()));
    TraceOptions options;
    options.name = capture.graph.name;
    options.grad = backend_.runs_aten() && !c10::InferenceMode::is_enabled();
    options.failed_backward = &backward;
    capture.marks_calls = backward.locate;
    options.run_backward = [](const std::function<void()>& backward) {
      python::GilRelease no_gil;
      backward();
    };
    return trace([&](const std::vector<at::Tensor>& stand_ins) { return interpret(stand_ins); }, tensors, options);
  }

  const SegmentStart& start_;

 private:
  void bind_call() {
    parameters_ = bind_parameters(capture, start_.function, *start_.shape);
    for (const Parameter& parameter : parameters_) {
      if (parameter.source && parameter.source->kind == AccessKind::Argument) collect(parameter.source);
      for (const Source* item : parameter.items) collect(item);
    }
  }
  void collect(const Source* source) { collect_tensors(capture, start_.arguments[source->index], source, 0); }

  void collect_moving(const guards::SourcePath& path) {
    PyObject* value = nullptr;
    PyObject* const* roots = start_.shape ? start_.arguments : fs_frame_locals(start_.frame);
    for (const guards::SourceStep& step : path) {
      // The path may be that of a call of another shape.
      const bool missing = step.kind == AccessKind::Argument && start_.shape &&
                           step.index >= static_cast<int64_t>(start_.shape->count());
      if (missing || step.lost()) return;
      value = step.kind == AccessKind::Argument   ? roots[step.index]
              : step.kind == AccessKind::Function ? start_.function
                                                  : guards::follow(step.kind, value, step.key(), step.index);
      if (!value) return;
    }
    if (is_number(value)) return capture.expect_changes(capture.sources.at(path));
    const bool known = std::any_of(capture.arguments.begin(), capture.arguments.end(),
                                   [&](const PyRef& argument) { return argument.get() == value; });
    if (!known) collect_tensors(capture, value, capture.sources.at(path), kDeepestArgument);
  }

  // In the middle of a function every local and every value on the stack is an argument.
  void bind_frame() {
    PyObject** values = fs_frame_locals(start_.frame);
    const int count = code_->co_nlocalsplus + fs_frame_depth(start_.frame);
    for (int i = 0; i < count; ++i) {
      if (values[i]) collect_tensors(capture, values[i], frame_source(i), 0);
    }
  }
  const Source* frame_source(int index) {
    const bool local = index < code_->co_nlocalsplus;
    std::string name = local ? std::string(python::text_of(PyTuple_GET_ITEM(code_->co_localsplusnames, index)))
                             : fmt::format("stack{}", index - code_->co_nlocalsplus);
    return capture.sources.argument(index, std::move(name));
  }

  FunctionResult interpret(const std::vector<at::Tensor>& stand_ins) {
    KeepThreadState kept(start_.state);
    CaptureScope scope(capture);
    capture.enter(stand_ins);
    FrameInterpreter interpreter(capture, start_.state, start_.frame);
    interpreter.count_instructions(stop_at_);
    PyObject** locals = fs_frame_locals(start_.frame);
    if (start_.shape) {
      for (size_t i = 0; i < parameters_.size(); ++i) {
        if (parameters_[i].collects) {
          interpreter.replace_local(i, collect_rest(locals[i], parameters_[i]));
        } else {
          interpreter.set_local_source(i, parameters_[i].source);
        }
      }
    } else {
      for (int i = 0; i < code_->co_nlocalsplus; ++i) {
        if (locals[i]) interpreter.set_local_source(i, frame_source(i));
      }
      for (int i = 0; i < fs_frame_depth(start_.frame); ++i)
        interpreter.admit_stack(i, frame_source(code_->co_nlocalsplus + i));
    }
    const Ending ending = interpreter.run();
    if (ending == Ending::Raised) capture.stop_for_python_error();
    return describe(interpreter, ending, kept);
  }

  // `*args` and `**kwargs` are made anew at every call; what they hold are arguments. The frame keeps its own dict, for
  // the next attempt or a run as it is: what is made during a capture may be changed without a trace.
  PyRef collect_rest(PyObject* container, const Parameter& parameter) {
    Oracle::allow(container);
    PyRef values = python::checked(PyTuple_Check(container) ? PySequence_List(container) : PyDict_Values(container));
    bool numbers = false;
    for (size_t i = 0; i < parameter.items.size(); ++i) {
      PyObject* value = PyList_GET_ITEM(values.get(), i);
      if (python::is_tensor(value)) {
        capture.remember(value, parameter.items[i]);
        continue;
      }
      PyRef read = capture.admit_value(value, parameter.items[i]);
      numbers = numbers || read.get() != value;
      PyList_SetItem(values.get(), static_cast<Py_ssize_t>(i), read.release());
    }
    if (PyTuple_Check(container) && !numbers) return PyRef::borrow(container);
    if (PyTuple_Check(container)) return capture.made(python::checked(PyList_AsTuple(values.get())));
    PyRef copy = python::checked(PyDict_Copy(container));
    Py_ssize_t position = 0;
    PyObject* key = nullptr;
    for (Py_ssize_t i = 0; PyDict_Next(container, &position, &key, nullptr); ++i)
      python::check(PyDict_SetItem(copy.get(), key, PyList_GET_ITEM(values.get(), i)) == 0);
    return capture.made(std::move(copy));
  }

  // Recipes for all that the segment leaves behind. The tensors they need are the trace's results.
  FunctionResult describe(FrameInterpreter& interpreter, Ending ending, const KeepThreadState& kept) {
    segment = std::make_shared<Segment>();
    RecipeMaker maker(capture, segment->book);
    try {
      if (!capture.inference_blocks.empty()) throw NoRecipe{capture.inference_blocks[0], "a block of inference mode"};
      if (ending == Ending::Returned) {
        segment->kind = SegmentKind::Return;
        result_ = interpreter.take_result();
        interpreter.drop_values();
        segment->result = maker.of(result_.get());
      } else {
        segment->kind = SegmentKind::Break;
        segment->end = interpreter.next();
        for (size_t i = 0; i < interpreter.locals().size(); ++i) {
          PyObject* value = interpreter.locals()[i].get();
          if (is_kept(interpreter, i, value)) continue;
          segment->locals.emplace_back(static_cast<int32_t>(i), maker.of(value));
        }
        for (const PyRef& value : interpreter.stack()) segment->stack.push_back(maker.of(value.get()));
      }
      PyObject* handled = start_.state->exc_info->exc_value;
      if (handled != kept.handled()) segment->handled = maker.of(handled);
      maker.add_writes();
    } catch (const NoRecipe& missing) {
      no_recipe_birth = capture.birth_of(missing.object.get());
      capture.stop(ending == Ending::Returned ? BreakReason::Result : BreakReason::Value,
                   fmt::format("{} that cannot be made again", missing.what));
    }
    if (TorchModes::current() != kept.modes()) segment->modes = TorchModes::current();
    FunctionResult returned;
    for (const PyRef& tensor : maker.tensors()) {
      capture.graph.outputs.emplace_back(capture.value_of(tensor.get()));
      result_kinds.push_back(kind_of_result(tensor.get()));
      returned.tensors.push_back(python::unpack(tensor.get()));
    }
    returned.tree = Tree::tuple_of_leaves(returned.tensors.size());
    capture.graph.output_tree = returned.tree;
    result_ = {};
    return returned;
  }

  // A local that still holds what the frame holds needs no recipe.
  bool is_kept(const FrameInterpreter& interpreter, size_t index, PyObject* value) const {
    PyObject* before = fs_frame_locals(start_.frame)[index];
    if (interpreter.is_untouched(index) || value == before) return true;
    if (const Source* source = value ? capture.number_source(value) : nullptr)
      return !start_.shape && source->kind == AccessKind::Argument && source->index == static_cast<int64_t>(index);
    if (!before || !value || !python::is_tensor(value) || !python::is_tensor(before)) return false;
    const Source* source = capture.tensor_source(value);
    return source && source == capture.source_of(before);
  }

  const BackendChoice& backend_;
  long stop_at_;
  PyCodeObject* code_;
  const Source* function_source_ = nullptr;
  std::vector<Parameter> parameters_;
  PyRef result_;

 public:
  Capture capture;
  std::shared_ptr<Segment> segment;
  FailedBackward backward;
  std::vector<ResultKind> result_kinds;
  long no_recipe_birth = -2;  // -2: nothing was missing; -1: it is not known when it was made
};

// Tensors that a guard walks to at every call: the entry need not keep them.
TensorSet guarded_captures(const Capture& capture) {
  TensorSet tensors;
  for (const Input& input : capture.graph.inputs) {
    if (input.captured.defined()) tensors.insert(input.captured.unsafeGetTensorImpl());
  }
  return tensors;
}

// Where the guards find each of the executable's captured tensors; -1 for those that no guard leads to.
std::vector<int32_t> captured_slots(const Executable& executable, const Capture& capture,
                                    const guards::GuardProgram& guards) {
  std::unordered_map<const c10::TensorImpl*, int32_t> known;
  for (size_t i = 0; i < capture.graph.inputs.size(); ++i) {
    const at::Tensor& tensor = capture.graph.inputs[i].captured;
    if (tensor.defined())
      known[tensor.unsafeGetTensorImpl()] = static_cast<int32_t>(guards.slot_of(capture.input_sources[i]));
  }
  std::vector<int32_t> slots;
  for (const at::Tensor& tensor : executable.signature().captured()) {
    auto found = known.find(tensor.unsafeGetTensorImpl());
    slots.push_back(found == known.end() ? -1 : found->second);
  }
  return slots;
}

// Tensors that C code reached by itself were captured without a guard.
void refuse_unknown_captures(const Trace& trace, const Capture& capture) {
  if (capture.ran_opaque_python) return;
  const TensorSet known = guarded_captures(capture);
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
  if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) python::throw_python_error();
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyRef type_ref = PyRef::steal(type), value_ref = PyRef::steal(value), traceback_ref = PyRef::steal(traceback);
  PyRef text = value ? PyRef::steal(PyObject_Str(value)) : PyRef();
  if (!text) PyErr_Clear();
  const std::string message(python::text_of(text.get()));
  return {BreakReason::Trace, message.substr(0, message.find('\n')), {}, {}};
}

[[noreturn]] void throw_as_itself(PyObject* exception) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception)), exception);
  python::throw_python_error();
}

void throw_interrupt(const Capture& capture) {
  if (capture.interrupt) throw_as_itself(capture.interrupt.get());
}

[[noreturn]] void throw_break(const Break& found) {
  PyErr_Clear();
  python::raise_as_is("GraphBreakError", found.message());
}

std::unordered_set<std::string>& warnings_given() {
  static auto* texts = new std::unordered_set<std::string>;
  return *texts;
}

void warn_once(const std::string& text) {
  if (warnings_given().insert(text).second) python::check(PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) == 0);
}

// A function that is not looked into has kept a traced tensor, which is of no use to anybody.
void refuse_leaks() {
  const std::string place = find_leaked_tensor();
  if (place.empty()) return;
  python::raise_as_is("EscapedTensorError",
                      fmt::format("a function under nonstrict_trace() or allow_in_graph() keeps a traced tensor in {}\n"
                                  "  why: it stands for a value while the function is traced, and has none afterwards\n"
                                  "  try: return the tensor, and keep it outside the compiled function",
                                  place));
}

// An operator that was disallowed is not called by name, and lies below one that is: that has no effect.
void warn_of_disallowed_operators(const Trace& trace) {
  for (const auto& node : trace.joint.graph.nodes) {
    if (!node->op.aten) continue;
    const c10::OperatorName& name = node->op.aten->operator_name();
    if (!is_disallowed_operator(name.name, name.overload_name)) continue;
    warn_once(
        fmt::format("disallow_in_graph({}) has no effect here: the code does not call it, it lies below an operator "
                    "that the code calls\n  try: disallow the operator that is called",
                    c10::toString(name)));
  }
}

// Guards and runner: the capture is over, and what it read is as it was again.
void finish(Attempt& attempt, std::optional<Executable> executable, const BackendChoice& backend,
            const guards::Ambient& ambient) {
  Capture& capture = attempt.capture;
  Segment& segment = *attempt.segment;
  if (attempt.start_.shape) segment.shape = *attempt.start_.shape;
  segment.ambient = ambient;
  const bool empty = capture.graph.nodes.empty() && capture.graph.outputs.empty();
  if (segment.kind == SegmentKind::Break && empty && segment.book.writes.empty() && !segment.modes) {
    // Runs as it is, whatever it meets.
    segment.kind = SegmentKind::Concrete;
    segment.guards = std::make_unique<guards::GuardProgram>(capture.sources, std::vector<Guard>(),
                                                            std::vector<const Source*>(), segment.holdings);
    segment.book = {};
    return;
  }
  std::vector<const Source*> wanted = capture.input_sources;
  wanted.insert(wanted.end(), segment.book.loads.begin(), segment.book.loads.end());
  segment.guards =
      std::make_unique<guards::GuardProgram>(capture.sources, std::move(capture.guards), wanted, segment.holdings);
  segment.book.settle(segment.holdings);
  for (const Source* source : segment.book.loads) segment.book.load_slots.push_back(segment.guards->slot_of(source));
  segment.book.loads.clear();
  std::vector<uint32_t> slots;
  for (const Source* source : capture.input_sources) slots.push_back(segment.guards->slot_of(source));
  if (!empty && backend.runs_aten()) {
    slots.resize(capture.arguments.size());  // the executable knows what was captured
    for (const Source* source : capture.number_sources) slots.push_back(segment.guards->slot_of(source));
    std::vector<int32_t> captured = captured_slots(*executable, capture, *segment.guards);
    executable->let_go(guarded_captures(capture));
    segment.runner = make_aot_runner(std::move(*executable), std::move(slots), std::move(captured));
    segment.runner = with_result_kinds(std::move(segment.runner), std::move(attempt.result_kinds));
  } else if (!empty && backend.kind == Backend::Callable && !capture.graph.nodes.empty()) {
    segment.runner = make_callable_runner(capture.graph.clone(), std::move(slots), backend.compiler);
  } else if (!empty) {
    segment.runner = make_eager_runner(capture.graph, std::move(slots), segment.holdings);
  }
  if (segment.runner && capture.switches_modes && !backend.runs_aten())
    segment.runner = make_mode_keeping_runner(std::move(segment.runner));
  segment.graph_text = capture.graph.str();
}

// Guards under which a capture is known to break at once, so that the next call need not try.
std::shared_ptr<Segment> eager_segment(Attempt& attempt, Break broken, const guards::Ambient& ambient) {
  auto segment = std::make_shared<Segment>();
  if (attempt.start_.shape) segment->shape = *attempt.start_.shape;
  segment->ambient = ambient;
  segment->broken = std::move(broken);
  segment->guards = std::make_unique<guards::GuardProgram>(attempt.capture.sources, std::move(attempt.capture.guards),
                                                           std::vector<const Source*>(), segment->holdings);
  return segment;
}

// Keeps for explain() where the segment starts and what it cost.
class Birth {
 public:
  explicit Birth(const SegmentStart& start) : start_(start), next_(fs_frame_next(start.frame)) {}
  std::shared_ptr<Segment> note(std::shared_ptr<Segment> segment) const {
    static uint64_t count = 0;
    PyCodeObject* code = fs_frame_code(start_.frame);
    segment->function = python::text_of(code->co_qualname);
    segment->file = python::text_of(code->co_filename);
    segment->line = start_.shape ? code->co_firstlineno : PyCode_Addr2Line(code, next_ * int(sizeof(_Py_CODEUNIT)));
    segment->number = ++count;
    segment->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    return segment;
  }

 private:
  const SegmentStart& start_;
  int next_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

constexpr int kAttempts = 8;
long g_forced = 0;

}  // namespace

void force_breaks(long instructions) { g_forced = instructions; }
void forget_warnings() { warnings_given().clear(); }

std::shared_ptr<Segment> capture_segment(const SegmentStart& start, const BackendChoice& backend, bool whole) {
  python::watch_data_reads();
  prepare_tables();
  // A finalizer that runs in the middle of a capture would be taken for the function's own doing.
  python::NoCollection no_collection;
  python::SourceScope lines;
  const Birth birth(start);
  const guards::Ambient ambient = guards::Ambient::current();
  long stop_at = g_forced > 0 && !whole ? g_forced : -1;
  std::optional<Break> reason;  // why the segment ends where it ends
  if (stop_at > 0) reason = Break{BreakReason::Control, "a break was forced for a test", {}, {}};
  bool locate_backward = false;
  std::vector<CachedCall> cached_calls;
  const Oracle oracle;
  for (int tries = 0;; ++tries) {
    if (start.shape) hide_free_variables(start.frame);
    auto attempt = std::make_unique<Attempt>(start, backend, stop_at, locate_backward);
    Capture& capture = attempt->capture;
    capture.cached_calls = &cached_calls;
    std::optional<Break> broken;
    std::optional<Executable> executable;
    std::weak_ptr<const void> life;
    const int next = fs_frame_next(start.frame);
    try {
      python::with_torch_warnings([&] {
        Trace trace = attempt->run();
        life = trace.life;
        refuse_unknown_captures(trace, capture);
        capture.journal.roll_back();
        if (backend.runs_aten()) {
          for (const std::string& text : capture.lost_gradients) warn_once(text);
          if (any_disallowed_operators()) warn_of_disallowed_operators(trace);
          CompilerOptions options;
          if (backend.kind == Backend::Native) options.native = native_code(backend.wait);
          executable.emplace(compile_trace(std::move(trace), options));
        }
      });
    } catch (const Break& found) {
      broken = found;
    } catch (...) {
      fs_frame_set_next(start.frame, next);
      broken = break_for_current_exception();
    }
    capture.journal.roll_back();
    fs_frame_set_next(start.frame, next);
    throw_interrupt(capture);
    if (broken && broken->is_error && !whole) throw_break(*broken);
    // An exception that leaves a function of one graph is the program's own: nothing has run yet.
    if (broken && whole && broken->reason == BreakReason::Exception && capture.uncaught)
      throw_as_itself(capture.uncaught.get());
    if (!broken) {
      finish(*attempt, std::move(executable), backend, ambient);
      attempt->segment->broken = std::move(reason);
      std::shared_ptr<Segment> segment = birth.note(attempt->segment);
      const bool ran_opaque_python = capture.ran_opaque_python;
      attempt.reset();
      if (ran_opaque_python && !life.expired()) refuse_leaks();
      return segment;
    }
    // A backward that cannot be traced: once more, to learn which call it belongs to.
    if (attempt->backward.began && !locate_backward) {
      locate_backward = true;
      continue;
    }
    const Capture::CallMark* failed = attempt->failed_call();
    if (failed) {
      std::string why = fmt::format("the backward of `{}`: {}", failed->at.detail, broken->detail);
      broken = failed->at;
      broken->detail = std::move(why);
      locate_backward = false;
    }
    if (!reason) reason = broken;
    if (broken->reason == BreakReason::SkipFrame && broken->depth <= 1 && !whole) {
      auto skipped = eager_segment(*attempt, std::move(*broken), ambient);
      skipped->kind = SegmentKind::Skipped;
      return birth.note(skipped);
    }
    // Again, up to the instruction that broke; or to the one that made what cannot be made again.
    const long at = failed ? failed->clock : attempt->no_recipe_birth != -2 ? attempt->no_recipe_birth : capture.clock;
    const bool hopeless = whole || tries >= kAttempts || at < 0 || (stop_at >= 0 && at >= stop_at) ||
                          (broken->reason == BreakReason::Trace && !failed);
    if (hopeless) return birth.note(eager_segment(*attempt, whole ? std::move(*broken) : std::move(*reason), ambient));
    stop_at = at;
  }
}

bool Segment::matches(PyObject* const* values, PyObject* function, guards::Slots& slots) const {
  if (holdings.dead()) return false;
  return guards->run(values, function, slots) == guards::GuardProgram::kPass;
}

int Segment::traverse(visitproc visit, void* arg) const {
  if (runner) {
    if (int stopped = runner->traverse(visit, arg)) return stopped;
  }
  return holdings.traverse(visit, arg);
}

bool run_segment(const Segment& segment, PyObject* const* slots, PyThreadState* state, FsFrame* frame, PyRef& result) {
  std::vector<PyRef> loads, outputs, pins;
  for (PyObject* object : segment.book.pins) pins.push_back(PyRef::borrow(object));
  loads.reserve(segment.book.load_slots.size());
  for (uint32_t slot : segment.book.load_slots) loads.push_back(PyRef::borrow(slots[slot]));
  if (segment.runner && !segment.runner->run(slots, outputs)) return false;
  Cook cook(segment.book, loads, outputs);
  // Writes come first: an iterator made over a list that is still to be filled would be at its end.
  if (!segment.book.writes.empty()) cook.apply_writes();
  PyRef handled = segment.handled ? cook.make(*segment.handled) : PyRef();
  std::vector<PyRef> locals, stack, old;
  if (segment.kind == SegmentKind::Return) result = cook.make(segment.result);
  for (const auto& [index, recipe] : segment.locals) locals.push_back(cook.make(recipe));
  for (int32_t recipe : segment.stack) stack.push_back(cook.make(recipe));
  // From here on nothing can fail.
  if (segment.modes) segment.modes->apply();
  if (segment.handled) {
    PyObject*& exception = (state ? state : PyThreadState_Get())->exc_info->exc_value;
    old.push_back(PyRef::steal(exception));
    exception = handled.release();
  }
  if (segment.kind == SegmentKind::Return) return true;
  PyObject** place = fs_frame_locals(frame);
  for (size_t i = 0; i < locals.size(); ++i) {
    PyObject*& local = place[segment.locals[i].first];
    old.push_back(PyRef::steal(local));
    local = locals[i].release();
  }
  PyObject** bottom = place + fs_frame_code(frame)->co_nlocalsplus;
  for (int i = 0; i < fs_frame_depth(frame); ++i) old.push_back(PyRef::steal(bottom[i]));
  for (size_t i = 0; i < stack.size(); ++i) bottom[i] = stack[i].release();
  fs_frame_set_depth(frame, static_cast<int>(stack.size()));
  fs_frame_set_next(frame, segment.end);
  return true;
}

}  // namespace firesteel::capture
