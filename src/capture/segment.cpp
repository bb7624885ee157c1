// The road of one capture: arguments, trace with the interpreter inside, recipes, guards, runner.
#include "capture/segment.h"

#include <algorithm>
#include <chrono>

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include "aot/data_ops.h"
#include "base/progress.h"
#include "capture/allowance.h"
#include "capture/attempt.h"
#include "capture/backend_inputs.h"
#include "capture/exception_form.h"
#include "capture/frame_hook.h"
#include "capture/guard_filter.h"
#include "capture/inference_mode.h"
#include "capture/marks.h"
#include "capture/opaque_state.h"
#include "capture/oracle.h"
#include "capture/recipe_maker.h"
#include "capture/result_kinds.h"
#include "capture/wanted_inputs.h"
#include "compiler.h"
#include "python/errors.h"
#include "python/no_collection.h"
#include "python/pytree.h"
#include "python/pytree_nodes.h"
#include "python/tensor_objects.h"
#include "python/traced_tensors.h"
#include "python/user_frames.h"
#include "runtime/watched_runs.h"

namespace firesteel::capture {
namespace {

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

// What the tracer refused, or a Python error outside any instruction; an interrupt is thrown on. `is_mutation`: it is
// a MutationError, which comes as its Python twin.
Break break_for_current_exception(bool& is_mutation) {
  try {
    python::set_python_error(std::current_exception());
  } catch (const std::exception& error) {
    return {BreakReason::Internal, error.what(), {}, {}};
  }
  if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) python::throw_python_error();
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  is_mutation = type && std::string_view(reinterpret_cast<PyTypeObject*>(type)->tp_name).ends_with("MutationError");
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

// A function that is not looked into has kept a traced tensor, which is of no use to anybody. One that only garbage
// holds, as the frames of an exception that was met, is kept by nobody.
void refuse_leaks(const std::weak_ptr<const void>& life) {
  std::string place = find_leaked_tensor();
  if (place.empty()) return;
  const bool was_off = PyGC_Enable() == 0;
  PyGC_Collect();
  if (was_off) PyGC_Disable();
  if (life.expired()) return;
  place = find_leaked_tensor();
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

void hold_strangers(Segment& segment, const Capture& capture) {
  for (const auto& [type, abstract] : capture.strangers)
    segment.strangers.emplace_back(segment.holdings.hold(type.get()), segment.holdings.hold(abstract.get()));
}

// Guards and runner: the capture is over, and what it read is as it was again.
void finish(Attempt& attempt, std::optional<Executable> executable, const BackendChoice& backend,
            const guards::Ambient& ambient) {
  Capture& capture = attempt.capture;
  Segment& segment = *attempt.segment;
  if (attempt.start_.shape) segment.shape = *attempt.start_.shape;
  segment.ambient = ambient;
  const bool empty = capture.graph.nodes.empty() && capture.graph.outputs.empty();
  const bool runs_aten = backend.runs_aten() && !capture.calls_leaf;
  const bool same_frames =
      segment.frames.size() == attempt.start_.frames.size() && segment.old_frames == segment.frames.size();
  if (segment.kind == SegmentKind::Break && same_frames && empty && segment.book.writes.empty() && !segment.modes) {
    // Runs as it is, whatever it meets.
    segment.kind = SegmentKind::Concrete;
    segment.guards = std::make_unique<guards::GuardProgram>(capture.sources, std::vector<Guard>(),
                                                            std::vector<const Source*>(), segment.holdings);
    segment.book = {};
    return;
  }
  std::vector<const Source*> wanted = capture.input_sources;
  wanted.insert(wanted.end(), segment.book.loads.begin(), segment.book.loads.end());
  wanted.insert(wanted.end(), capture.number_sources.begin(), capture.number_sources.end());
  if (const PyRef& filter = backend.guard_filter) {
    const SegmentStart& start = attempt.start_;
    PyObject* const* values = start.shape ? start.arguments : start.frames.values();
    leave_out_guards(filter.get(), {values, start.frames.function()}, capture.guards);
  }
  segment.guards =
      std::make_unique<guards::GuardProgram>(capture.sources, std::move(capture.guards), wanted, segment.holdings);
  hold_strangers(segment, capture);
  segment.book.settle(segment.holdings);
  for (const Source* source : segment.book.loads) segment.book.load_slots.push_back(segment.guards->slot_of(source));
  segment.book.loads.clear();
  std::vector<uint32_t> slots;
  for (const Source* source : capture.input_sources) slots.push_back(segment.guards->slot_of(source));
  if (!empty && runs_aten) {
    const std::vector<uint32_t> all_inputs = slots;
    slots.resize(capture.arguments.size());  // the executable knows what was captured
    for (const Source* source : capture.number_sources) slots.push_back(segment.guards->slot_of(source));
    size_t slot_count = 0;
    for (const auto* some : {&all_inputs, &std::as_const(slots)}) {
      for (uint32_t slot : *some) slot_count = std::max<size_t>(slot_count, slot + 1);
    }
    std::vector<int32_t> captured = captured_slots(*executable, capture, *segment.guards);
    executable->let_go(guarded_captures(capture));
    segment.runner = make_aot_runner(std::move(*executable), std::move(slots), std::move(captured));
    segment.runner = with_result_kinds(std::move(segment.runner), std::move(attempt.result_kinds));
    if (results_are_checked()) {
      auto eager = make_eager_runner(capture.graph, all_inputs, segment.holdings);
      if (capture.mode_switches) eager = make_mode_keeping_runner(std::move(eager));
      segment.runner =
          make_checking_runner(std::move(segment.runner), std::move(eager), all_inputs, slot_count, segment);
    }
  } else if (backend.kind == Backend::Callable && (!capture.graph.nodes.empty() || attempt.gives_input)) {
    Graph graph = with_sizes(capture.graph, capture.size_hints);
    std::vector<BackendInput> inputs = backend_inputs(capture, *attempt.backend_paths, slots);
    segment.runner = with_result_kinds(make_callable_runner(std::move(graph), std::move(inputs), backend.compiler),
                                       std::move(attempt.result_kinds));
  } else if (!empty) {
    segment.runner = make_eager_runner(capture.graph, std::move(slots), segment.holdings);
  }
  if (segment.runner && capture.mode_switches && !runs_aten)
    segment.runner = make_mode_keeping_runner(std::move(segment.runner));
  segment.graph_text = capture.graph.str();
  segment.story = std::move(capture.story);
}

// Guards under which a capture is known to break at once, so that the next call need not try.
std::shared_ptr<Segment> eager_segment(Attempt& attempt, Break broken, const guards::Ambient& ambient) {
  auto segment = std::make_shared<Segment>();
  if (attempt.start_.shape) segment->shape = *attempt.start_.shape;
  segment->ambient = ambient;
  segment->broken = std::move(broken);
  segment->guards = std::make_unique<guards::GuardProgram>(attempt.capture.sources, std::move(attempt.capture.guards),
                                                           std::vector<const Source*>(), segment->holdings);
  hold_strangers(*segment, attempt.capture);
  return segment;
}

// Keeps for explain() where the segment starts and what it cost.
class Birth {
 public:
  explicit Birth(const SegmentStart& start) : start_(start), next_(fs_frame_next(start.frame())) {}
  std::shared_ptr<Segment> note(std::shared_ptr<Segment> segment) const {
    static uint64_t count = 0;
    PyCodeObject* code = fs_frame_code(start_.frame());
    segment->function = python::text_of(code->co_qualname);
    segment->file = python::text_of(code->co_filename);
    segment->line = start_.shape ? code->co_firstlineno : PyCode_Addr2Line(code, next_ * int(sizeof(_Py_CODEUNIT)));
    segment->number = ++count;
    segment->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    segment->story.began = std::chrono::duration<double>(begin_.time_since_epoch()).count();
    return segment;
  }

 private:
  const SegmentStart& start_;
  int next_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Frames that stood somewhere before a capture stand there again.
class KeepPlaces {
 public:
  explicit KeepPlaces(const LiveFrames& frames) : frames_(frames) {
    for (size_t i = 0; i < frames.size(); ++i) next_.push_back(fs_frame_next(frames[i].frame));
  }
  void restore() const {
    for (size_t i = 0; i < next_.size(); ++i) fs_frame_set_next(frames_[i].frame, next_[i]);
  }

 private:
  const LiveFrames& frames_;
  std::vector<int> next_;
};

// Where the next attempt ends: before the instruction that broke, or the one that made what cannot be made again.
long end_of_next(const Attempt& attempt, const Break& broken, const Capture::CallMark* failed) {
  const Capture& capture = attempt.capture;
  if (failed) return failed->clock;
  const std::vector<long>& running = capture.running;
  if (attempt.no_recipe_birth != -2) {
    // Nobody knows when it was made: no later than the call in whose frame the attempt ended.
    const bool inside = attempt.no_recipe_birth < 0 && capture.stopping;
    return inside ? running.front() : attempt.no_recipe_birth;
  }
  if (running.size() < 2) return capture.clock;
  // It is the function as a whole that runs as it is; one of too many calls never comes back.
  if (broken.reason == BreakReason::SkipFrame && broken.depth == capture.chain_at_break)
    return running[running.size() - 2];
  return broken.reason == BreakReason::Depth ? running.front() : capture.clock;
}

// The code was captured to its end, and only the ATen graph underneath cannot do what it does to memory: call by call
// there is nothing to it. Sizes that were open are gone with the trace.
bool go_on_call_by_call(Attempt& attempt) {
  Capture& capture = attempt.capture;
  const auto dims = capture.dynamic_dims();
  const bool open = !capture.number_sources.empty() ||
                    std::any_of(dims.begin(), dims.end(), [](const auto& dim) { return !dim.empty(); });
  if (!attempt.is_described || open) return false;
  capture.calls_leaf = true;
  return true;
}

constexpr int kAttempts = 8;
constexpr int kMadeUp = 64;  // attempts with other made-up sizes
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
  const Compiling compiling;
  const ProgressStage stage("capturing");
  const Birth birth(start);
  const guards::Ambient ambient = guards::Ambient::current();
  long stop_at = g_forced > 0 && !whole ? g_forced : -1;
  std::optional<Break> reason;  // why the segment ends where it ends
  if (stop_at > 0) reason = Break{BreakReason::Control, "a break was forced for a test", {}, {}};
  bool locate_backward = false;
  std::vector<CachedCall> cached_calls;
  DataHints data_hints;
  int made_up = 0;
  const Oracle oracle;
  bool nests = follows_inner_breaks() && !whole;
  const KeepPlaces places(start.frames);
  std::vector<guards::SourcePath> moving = start.moving ? *start.moving : std::vector<guards::SourcePath>();
  SegmentStart from = start;
  from.moving = &moving;
  WantedInputs wanted(lifts_tensors() && backend.kind == Backend::Callable);
  for (int tries = 0;; ++tries) {
    if (start.shape) hide_free_variables(start.frame());
    auto attempt = std::make_unique<Attempt>(from, backend, stop_at, locate_backward);
    Capture& capture = attempt->capture;
    capture.cached_calls = &cached_calls;
    capture.whole_stretches = whole ? 1 : 0;
    capture.nests = nests;
    capture.takes_data_numbers = whole || captured_data().numbers;
    capture.takes_data_sizes = whole || captured_data().sizes;
    capture.data_hints = &data_hints;
    std::optional<Break> broken;
    std::optional<Executable> executable;
    std::weak_ptr<const void> life;
    try {
      python::with_torch_warnings([&] {
        Trace trace = attempt->run();
        life = trace.life;
        refuse_unknown_captures(trace, capture);
        capture.note_sizes(trace);
        capture.journal.roll_back();
        attempt->segment->rerun = rerun_of(trace, capture, backend);
        if (backend.runs_aten() && !capture.calls_leaf) {
          for (const std::string& text : capture.lost_gradients) warn_once(text);
          if (any_disallowed_operators()) warn_of_disallowed_operators(trace);
          CompilerOptions options;
          if (backend.kind == Backend::Native) options.native = native_code(backend.wait);
          options.freeze = backend.freeze;
          executable.emplace(compile_trace(std::move(trace), options, &capture.story.stages));
        }
      });
    } catch (const Break& found) {
      broken = found;
    } catch (...) {
      places.restore();
      bool is_mutation = false;
      broken = break_for_current_exception(is_mutation);
      if (capture.broken) broken = *capture.broken;
      if (is_mutation && go_on_call_by_call(*attempt)) broken.reset();
    }
    capture.journal.roll_back();
    places.restore();
    // With other sizes made up the capture may get further.
    if (std::exchange(data_hints.changed, false) && broken && !capture.interrupted && made_up < kMadeUp) {
      ++made_up;
      --tries;
      continue;
    }
    throw_interrupt(capture);
    if (wanted.take(moving)) {
      --tries;
      continue;
    }
    if (broken && broken->is_error && !whole) throw_break(*broken);
    // An exception that leaves a function of one graph is the program's own: nothing has run yet.
    if (broken && whole && broken->reason == BreakReason::Exception && capture.uncaught)
      throw_as_itself(formed_exception(capture.uncaught.get()).get());
    if (!broken) {
      attempt->gives_input = attempt->gives_input && whole;  // PyTorch has a graph of it then, and else none
      finish(*attempt, std::move(executable), backend, ambient);
      // A break between the instructions of a frame that was entered is one like any other.
      if (reason && reason->depth > 1 && reason->depth <= attempt->segment->frames.size()) reason->depth = 1;
      attempt->segment->broken = std::move(reason);
      std::shared_ptr<Segment> segment = birth.note(attempt->segment);
      const bool ran_opaque_python = capture.ran_opaque_python;
      attempt.reset();
      if (ran_opaque_python && !life.expired()) refuse_leaks(life);
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
    const bool in_top = broken->depth <= 1 || (broken->depth == start.frames.size() && capture.running.size() == 1);
    if (broken->reason == BreakReason::SkipFrame && in_top && !whole) {
      auto skipped = eager_segment(*attempt, std::move(*broken), ambient);
      skipped->kind = SegmentKind::Skipped;
      return birth.note(skipped);
    }
    const long at = end_of_next(*attempt, *broken, failed);
    const bool hopeless = whole || tries >= kAttempts || at < 0 || (stop_at >= 0 && at >= stop_at) ||
                          (broken->reason == BreakReason::Trace && !failed);
    if (hopeless && nests && capture.entered && broken->reason != BreakReason::Trace) {
      // Once more, with breaks at the calls of the functions that broke.
      nests = false;
      tries = 0;
      stop_at = g_forced > 0 ? g_forced : -1;
      if (stop_at < 0) reason.reset();
      continue;
    }
    if (hopeless) return birth.note(eager_segment(*attempt, whole ? std::move(*broken) : std::move(*reason), ambient));
    stop_at = at;
  }
}

bool Segment::matches(PyObject* const* values, PyObject* function, guards::Slots& slots) const {
  if (holdings.dead()) return false;
  return guards->run(values, function, slots) == guards::GuardProgram::kPass;
}

python::UserLine Segment::user_line() const {
  if (python::is_library(file)) {
    for (const SourceRef& source : story.sources) {
      if (source && *source) return {{}, {}, source->file->path, source->function, static_cast<int>(source->line)};
    }
  }
  return {{}, {}, file, function, line};
}

int Segment::traverse(visitproc visit, void* arg) const {
  if (runner) {
    if (int stopped = runner->traverse(visit, arg)) return stopped;
  }
  return holdings.traverse(visit, arg);
}

}  // namespace firesteel::capture
