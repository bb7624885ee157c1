// Serving calls: whole where one piece covers the call, else piece by piece along the frame.
#include "capture/region.h"

#include <algorithm>
#include <tuple>
#include <unordered_set>

#include <fmt/format.h>

#include "capture/allowance.h"
#include "capture/callables.h"
#include "capture/counters.h"
#include "capture/driving.h"
#include "capture/equal_calls.h"
#include "capture/events.h"
#include "capture/frame_hook.h"
#include "capture/marks.h"
#include "capture/stance.h"
#include "python/c_stack.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/user_frames.h"

namespace firesteel::capture {
namespace {

thread_local Region* t_region = nullptr;

// All there are; guarded by the GIL.
std::unordered_set<Region*>& all_regions() {
  static auto* regions = new std::unordered_set<Region*>;
  return *regions;
}

PyFunctionObject* as_function(PyObject* function) { return reinterpret_cast<PyFunctionObject*>(function); }
PyCodeObject* code_of(PyObject* function) { return reinterpret_cast<PyCodeObject*>(as_function(function)->func_code); }
constexpr const char* kLimitAdvice =
    "pass what keeps changing as a tensor, keep it out of the compiled function, or raise recompile_limit";

std::string name_of(PyObject* function) { return std::string(python::text_of(as_function(function)->func_qualname)); }

// Where a function begins, as an error shows it: `  model.py:12  def f(x):`.
std::string first_line(PyObject* function) {
  PyCodeObject* code = code_of(function);
  return python::show({PyRef::borrow(reinterpret_cast<PyObject*>(code)),
                       PyRef::borrow(as_function(function)->func_globals),
                       std::string(python::text_of(code->co_filename)), name_of(function), code->co_firstlineno});
}

PyObject* run_eagerly(PyObject* function, const CallValues& values) {
  return PyObject_Vectorcall(function, values.raw, values.positional, values.keywords);
}

PyObject* fall_back(PyObject* function, const CallValues& values, BreakReason reason) {
  ++counters().fallbacks[static_cast<size_t>(reason)];
  tell_fallback(code_of(function), reason);
  RegionScope outside(nullptr);
  return run_eagerly(function, values);
}

void raise_break(const Break& found) {
  PyErr_Clear();
  try {
    python::raise_as_is("GraphBreakError", found.message());
  } catch (...) {
    python::set_python_error(std::current_exception());
  }
}

// What the program wants to run as it is, torch's own, and what Firesteel has a rule for.
bool runs_as_it_is(PyObject* callable, PyObject* function) {
  if (builtin_rule(function) || torch_leaf(function) || is_torch_op(callable)) return true;
  if (const Mark mark = mark_of(function).mark; mark == Mark::Disabled || mark == Mark::Substituted) return true;
  auto* type = PyType_Check(callable) ? reinterpret_cast<PyTypeObject*>(callable) : Py_TYPE(callable);
  return mark_of_class(type).mark == Mark::Disabled;
}

std::string folder_of(const char* name) {
  PyRef module = python::checked(PyImport_ImportModule(name));
  const std::string file(python::text_of(python::attribute(module.get(), "__file__").get()));
  return file.substr(0, file.rfind('/') + 1);
}

// What torch wraps around its C functions: no user's code and hardly a tensor operation.
constexpr const char* kTorchPlumbing[] = {
    "autograd/",       "_tensor.py", "_tensor_str.py",     "random.py",   "overrides.py",     "serialization.py",
    "nn/parameter.py", "nn/init.py", "utils/hooks.py",     "amp/",        "_jit_internal.py", "storage.py",
    "_library/",       "_ops.py",    "_higher_order_ops/", "_functorch/", "utils/_pytree.py"};

constexpr int kSpecialCode = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;

}  // namespace

bool has_handlers(const PyCodeObject* code) { return PyBytes_GET_SIZE(code->co_exceptiontable) != 0; }

PyObject* told_of_raised(const Segment& segment, bool may_be_met, PyObject* result) {
  const bool of_data = segment.raised.find("the compiled code takes for granted") != std::string::npos;
  if (!result || may_be_met || of_data) return result;
  if (std::exchange(segment.warned_of_raised, true)) return result;
  PyRef held = PyRef::steal(result);
  const std::string text = fmt::format(
      "a graph of `{}` has raised an error, and its code, which ran again eagerly, has ended without one\n{}\n"
      "  reason: {} [{}]\n"
      "  try: where the code catches that error itself, nothing, or keep such calls apart with @firesteel.disable; "
      "else "
      "the graph is wrong: FIRESTEEL_CHECK=1 compares it with eager, `firesteel minify` makes it small for a report",
      segment.function, python::show(segment.user_line()), segment.raised, row(BreakReason::Exception).id);
  return PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 1) == 0 ? held.release() : nullptr;
}

RegionScope::RegionScope(Region* region) : outer_(std::exchange(t_region, region)) {}
RegionScope::~RegionScope() { t_region = outer_; }

bool is_of_torch(PyCodeObject* code) {
  static const std::string torch = folder_of("torch");
  return python::text_of(code->co_filename).starts_with(torch);
}

bool is_library(PyCodeObject* code) {
  static const std::string standard = folder_of("os"), torch = folder_of("torch");
  const std::string_view path = python::text_of(code->co_filename);
  if (is_of_torch(code)) {
    const std::string_view inner = path.substr(torch.size());
    return std::any_of(std::begin(kTorchPlumbing), std::end(kTorchPlumbing),
                       [&](const char* part) { return inner.starts_with(part); });
  }
  return path.starts_with("<frozen") ||
         (path.starts_with(standard) && path.find("site-packages") == std::string_view::npos);
}

namespace {

// What nn.Module does around the forward of a module.
bool is_module_call(PyCodeObject* code) {
  static const std::string file = folder_of("torch") + "nn/modules/module.py";
  return python::text_of(code->co_filename) == file;
}

// While a module's call is skipped: the functions that come next are so, too, up to its forward.
thread_local bool t_skips_on = false;

class SkipsOn {
 public:
  explicit SkipsOn(bool on) : before_(std::exchange(t_skips_on, on)) {}
  ~SkipsOn() { t_skips_on = before_; }
  SkipsOn(const SkipsOn&) = delete;
  SkipsOn& operator=(const SkipsOn&) = delete;

 private:
  const bool before_;
};

}  // namespace

PyRef call_for_real(PyObject* callable, const CallArgs& args) {
  PyObject* function = PyMethod_Check(callable) ? PyMethod_GET_FUNCTION(callable) : callable;
  PyObject* self = PyMethod_Check(callable) ? PyMethod_GET_SELF(callable) : nullptr;
  if (!PyFunction_Check(function) && !PyType_Check(callable) && !is_own_callable(callable) &&
      (Py_TYPE(callable)->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
    static PyObject* name = interned("__call__").release();
    PyObject* found = _PyType_Lookup(Py_TYPE(callable), name);
    if (found && PyFunction_Check(found)) {
      function = found;
      self = callable;
    }
  }
  if (!t_region || !PyFunction_Check(function) || is_library(code_of(function)) || runs_as_it_is(callable, function))
    return args.call(callable);
  std::vector<PyObject*> raw;
  if (self) raw.push_back(self);
  for (const PyRef& value : args.values) raw.push_back(value.get());
  const CallValues values{raw.data(), args.positional() + (self ? 1 : 0), args.keywords.get()};
  return python::checked(t_skips_on ? t_region->call_skipped(function, values) : t_region->call(function, values));
}

Region::Region(RegionOptions options)
    : options_(std::move(options)),
      pieces_({options_.backend.kind, options_.backend.compiler.get(), options_.backend.wait, options_.fullgraph,
               options_.isolated, options_.backend.sizes}) {
  all_regions().insert(this);
}
Region::~Region() { all_regions().erase(this); }

Region* Region::current() { return t_region; }

std::vector<const Region*> Region::all() { return {all_regions().begin(), all_regions().end()}; }

void Region::reset_all() {
  forget_warnings();
  const std::vector<Region*> regions(all_regions().begin(), all_regions().end());
  for (Region* region : regions) {
    if (all_regions().count(region)) region->clear();  // clearing one may end another
  }
}

// Pieces that died count only where all that was ever compiled dies at once: then compiling is no use.
bool Region::is_full(const Bucket& bucket, size_t limit) {
  constexpr size_t kPatience = 32;
  return bucket.held.size() >= limit || bucket.wasted / kPatience >= limit;
}

bool Region::may_compile(Bucket& bucket, PyObject* function, const CallValues& values, bool whole) {
  if (bucket.gave_up) return true;
  const Allowance allowed = ask_allowance(options_.recompile_limit, name_of(function), bucket.held.size(),
                                          options_.backend.sizes == SizePolicy::None,
                                          [&] { return Pieces::explain_miss(bucket, function, values); });
  if (!is_full(bucket, allowed.limit)) return true;
  if (whole || allowed.fails) {
    python::raise_as_is(
        "RecompileLimitError",
        fmt::format("`{}` was compiled {} times, and {} forbids running it eagerly\n{}\n  reason: the guard that "
                    "failed last: {} [{}]\n  try: {}",
                    name_of(function), bucket.held.size(), whole ? "fullgraph=True" : "fail_on_recompile_limit_hit",
                    first_line(function), Pieces::explain_miss(bucket, function, values), row(BreakReason::Limit).id,
                    kLimitAdvice));
  }
  return reach_limit(bucket, function, values);
}

void Region::note_recompile(const Bucket& bucket, PyObject* function, const CallValues& values, bool is_last) {
  constexpr size_t kMostNotes = 32;
  if (!options_.notes_recompiles && recompiles_.size() >= kMostNotes) return;
  Recompile note{.function = name_of(function), .is_last = is_last};
  if (!bucket.held.empty()) {
    const std::shared_ptr<Segment> newest = bucket.held.front().segment;
    const python::UserLine place = newest->user_line();
    std::tie(note.file, note.line, note.before) = std::tie(place.file, place.line, newest->number);
    note.guard = Pieces::explain_miss(bucket, function, values, /*plainly=*/!options_.notes_recompiles);
  } else if (const auto& gone = bucket.gone; gone && !gone->reason.empty()) {
    std::tie(note.file, note.line, note.before) = std::tie(gone->file, gone->line, gone->number);
    note.guard = gone->reason;
  } else {
    return;
  }
  tell_recompile(note);
  recompiles_.push_back(std::move(note));
}

bool Region::reach_limit(Bucket& bucket, PyObject* function, const CallValues& values) {
  bucket.gave_up = true;
  note_recompile(bucket, function, values, /*is_last=*/true);
  const std::string text = fmt::format(
      "`{}` was compiled {} times and runs eagerly from now on\n{}\n  reason: the guard that failed last: {} [{}]\n"
      "  try: {}",
      name_of(function), std::max(bucket.held.size(), bucket.wasted), first_line(function),
      Pieces::explain_miss(bucket, function, values), row(BreakReason::Limit).id, kLimitAdvice);
  return PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 1) == 0;
}

Region& Region::with_backend(const BackendChoice& backend) {
  for (const auto& other : others_) {
    if (other->options_.backend.kind == backend.kind &&
        other->options_.backend.compiler.get() == backend.compiler.get())
      return *other;
  }
  RegionOptions options = options_;
  options.backend = backend;
  others_.push_back(std::make_unique<Region>(std::move(options)));
  others_.back()->is_forced_ = others_.back()->was_called_ = true;
  return *others_.back();
}

void Region::expect_changes(PyObject* function, const CallValues& values) {
  if (first_sizes_.empty()) return;
  Bucket& starts = pieces_.bucket({{code_of(function), 0}});
  for (guards::SourcePath& path : first_sizes_.take_changed(values.raw, values.count()))
    starts.add_moving(std::move(path));
}

std::optional<PyObject*> Region::serve_stance(PyObject* function, const CallValues& values) {
  const bool first = !std::exchange(was_called_, true);
  switch (stance_kind()) {
    case StanceKind::Default:
      if (!stance().backend || is_forced_) return std::nullopt;
      return with_backend(*stance().backend).call(function, values);
    case StanceKind::ForceEager:
      return fall_back(function, values, BreakReason::Stance);
    case StanceKind::EagerThenCompile:
    case StanceKind::AotEagerThenCompile:
      if (!first) {
        expect_changes(function, values);
        return std::nullopt;
      }
      first_sizes_.note(values.raw, values.count());
      if (stance_kind() == StanceKind::EagerThenCompile) return fall_back(function, values, BreakReason::Stance);
      return with_backend({Backend::AotEager, {}}).call(function, values);
    case StanceKind::EagerOnRecompile:
    case StanceKind::FailOnRecompile:
      break;  // matter only where nothing fits
  }
  return std::nullopt;
}

void Region::refuse_to_compile(const Bucket& bucket, PyObject* function, const CallValues& values) const {
  python::raise_as_is("ControlError",
                      fmt::format("`{}` would have to be compiled, and set_stance(\"fail_on_recompile\") forbids it\n"
                                  "{}\n  reason: {} [{}]\n  try: call it with such arguments before the stance is "
                                  "set, or set_stance(\"default\")",
                                  name_of(function), first_line(function),
                                  Pieces::explain_miss(bucket, function, values), row(BreakReason::Stance).id));
}

PyObject* Region::call_skipped(PyObject* function, const CallValues& values) {
  const SkipsOn skips_on(is_module_call(code_of(function)));
  bool taken = false;
  FrameTaker taker = [&](PyThreadState* state, FsFrame* frame) -> PyObject* {
    if (!fs_frame_is_fresh(state, frame)) return run_frame(state, frame);
    try {
      return run_concretely(state, frame);
    } catch (...) {
      return finish_with_error(state, frame);
    }
  };
  return call_hooked(function, values.raw, values.positional, values.keywords, taker, taken);
}

PyObject* Region::call(PyObject* function, const CallValues& values) {
  if (std::optional<PyObject*> served = serve_stance(function, values)) return *served;
  PyCodeObject* code = code_of(function);
  Bucket& starts = pieces_.bucket({{code, 0}});
  Slots slots;
  std::shared_ptr<Segment> segment = pieces_.find_call(code, starts, function, values, slots);
  std::optional<EqualCall> other;  // its values are in the slots
  for (const bool with_defaults : {false, true}) {
    if (!segment && (other = EqualCall::of(function, values, with_defaults)))
      segment = pieces_.find_call(code, starts, function, other->values(), slots);
  }
  if (segment && segment->kind == SegmentKind::Return) {
    PyRef result;
    const RunEnd end = run_segment(*segment, slots.data(), nullptr, nullptr, result, nullptr);
    if (end == RunEnd::Done) {
      ++counters().hits;
      return result.release();
    }
    if (end == RunEnd::Raised) {
      const bool may_be_met = has_handlers(code);  // which the call may drop
      return told_of_raised(*segment, may_be_met, fall_back(function, values, BreakReason::Exception));
    }
    if (end != RunEnd::Unfit) return fall_back(function, values, reason_of(end));
    segment = nullptr;
  }
  if (segment && options_.fullgraph) return raise_break(*segment->broken), nullptr;
  if (segment && segment->kind == SegmentKind::Eager) return fall_back(function, values, segment->broken->reason);
  if (!segment) {
    starts.drop_stale();
    if (stance_kind() == StanceKind::EagerOnRecompile) return fall_back(function, values, BreakReason::Stance);
    if (stance_kind() == StanceKind::FailOnRecompile) refuse_to_compile(starts, function, values);
    ++counters().misses;
    if (!fs_can_capture()) return fall_back(function, values, BreakReason::Python);
    if (code->co_flags & kSpecialCode) {
      if (options_.fullgraph)
        return raise_break(
                   {BreakReason::Generator, std::string(python::text_of(code->co_name)), first_line(function), {}}),
               nullptr;
      return fall_back(function, values, BreakReason::Generator);
    }
    if (guards::Ambient::current().python_modes) return fall_back(function, values, BreakReason::Modes);
    if (!may_compile(starts, function, values, options_.fullgraph)) return nullptr;
    if (starts.gave_up) return fall_back(function, values, BreakReason::Limit);
  }
  return run_hooked(function, values, std::move(segment), slots);
}

// Takes the frame of this call: captures it where no piece is known, and runs it in pieces.
PyObject* Region::run_hooked(PyObject* function, const CallValues& values, std::shared_ptr<Segment> first,
                             Slots& slots) {
  // Pieces that call each other nest on the C stack, which a deep recursion of the program's own does not need.
  if (python::c_stack_is_low()) {
    if (!options_.fullgraph) return fall_back(function, values, BreakReason::Depth);
    return raise_break({BreakReason::Depth, "the C stack allows", first_line(function), {}}), nullptr;
  }
  bool taken = false;
  FrameTaker taker = [&](PyThreadState* state, FsFrame* frame) -> PyObject* {
    if (!fs_frame_is_fresh(state, frame)) {
      ++counters().fallbacks[static_cast<size_t>(BreakReason::Monitored)];
      tell_fallback(code_of(function), BreakReason::Monitored);
      return run_frame(state, frame);
    }
    try {
      LiveFrames frames({frame, function});
      if (!first) {
        const CallShape shape(values.positional, values.keywords);
        const Place start{{code_of(function), 0}};
        Bucket& starts = pieces_.bucket(start);
        note_recompile(starts, function, values);
        pieces_.note_moving(start, function, values);
        first =
            capture_segment({state, frames, &shape, values.raw, &starts.moving}, options_.backend, options_.fullgraph);
        if (options_.fullgraph && first->kind != SegmentKind::Return) {
          raise_break(*first->broken);
          tell_error(code_of(function));
          return fs_frame_finish(state, frame, nullptr);
        }
        tell_capture(*first);
        if (first->kind != SegmentKind::Eager) ++counters().captured;
        if (first->kind != SegmentKind::Concrete && !first->matches(values.raw, function, slots))
          return run_on(state, frame, BreakReason::Unstable);
        pieces_.add(starts, first);
      }
      Progress progress{std::move(first)};
      return drive(state, frames, progress, slots);
    } catch (...) {
      return finish_with_error(state, frame);
    }
  };
  PyRef result = PyRef::steal(call_hooked(function, values.raw, values.positional, values.keywords, taker, taken));
  if (result && !taken) ++counters().fallbacks[static_cast<size_t>(BreakReason::Hook)];
  return result.release();
}

int Region::traverse(visitproc visit, void* arg) const {
  Py_VISIT(options_.backend.compiler.get());
  for (const auto& other : others_) {
    if (int stopped = other->traverse(visit, arg)) return stopped;
  }
  return pieces_.traverse(visit, arg);
}

void Region::clear() {
  pieces_.clear();
  recompiles_.clear();
  was_called_ = is_forced_;
  for (const auto& other : others_) other->clear();
}

}  // namespace firesteel::capture
