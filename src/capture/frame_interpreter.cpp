// The loop: decode, look up, run, until the frame returns; and the way of an exception through the frame.
#include "capture/frame_interpreter.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "aot/dispatch_keys.h"
#include "base/progress.h"
#include "capture/callables.h"
#include "capture/exception_table.h"
#include "capture/oracle.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {

const FrameInterpreter::Row* FrameInterpreter::rows() {
  static const auto table = [] {
    std::array<Row, 256> made{};
#define X(opcode, handler) made[opcode] = {#opcode, &FrameInterpreter::handler};
    FIRESTEEL_OPCODES(X)
#undef X
    return made;
  }();
  return table.data();
}

namespace {

// Somebody other than the entries asks whether it is still there.
bool is_watched(PyObject* object) {
  if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(object)) || python::is_tensor(object)) return false;
  auto* reference = *reinterpret_cast<PyWeakReference**>(PyObject_GET_WEAKREFS_LISTPTR(object));
  for (; reference; reference = reference->wr_next) {
    PyObject* callback = reference->wr_callback;
    if (!callback || std::string_view(Py_TYPE(callback)->tp_name) != "firesteel.DeathNotice") return true;
  }
  return false;
}

// Neither a tensor nor a constant, nor a list, tuple or dict of such alone.
bool is_object(PyObject* value, int depth = 0) {
  if (!value || python::is_tensor(value) || is_guardable_constant(value)) return false;
  if (depth > 2 || !(PyList_CheckExact(value) || PyTuple_CheckExact(value) || PyDict_CheckExact(value))) return true;
  PyRef items = python::checked(PyDict_CheckExact(value) ? PyDict_Values(value) : PySequence_List(value));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    if (is_object(PyList_GET_ITEM(items.get(), i), depth + 1)) return true;
  }
  return false;
}

// Whether a write took an object out of where it was: what this one held may be held by nobody else.
bool took_object_out(const Journal& journal) {
  for (const Journal::Change& change : journal.changes()) {
    PyObject *container = change.container.get(), *before = change.before.get();
    if (change.member || PyCell_Check(container)) {
      PyObject* now = change.member ? slot_value(container, change.member.get()) : PyCell_GET(container);
      if (now != before && is_object(before)) return true;
    } else if (PyDict_Check(container)) {
      Py_ssize_t position = 0;
      PyObject *key = nullptr, *value = nullptr;
      while (PyDict_Next(before, &position, &key, &value)) {
        if (PyDict_GetItemWithError(container, key) != value && is_object(value)) return true;
      }
    } else {
      std::unordered_set<PyObject*> held;
      auto each = [](PyObject* items, auto&& visit) {
        PyRef list = python::checked(PySequence_List(items));
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) visit(PyList_GET_ITEM(list.get(), i));
      };
      bool lost = false;
      each(container, [&](PyObject* item) { held.insert(item); });
      each(before, [&](PyObject* item) { lost = lost || (is_object(item) && !held.count(item)); });
      if (lost) return true;
    }
  }
  return false;
}

// From outside, with a __del__ or weak references, and held by hardly anybody but the frame, this interpreter and the
// capture; also where a container holds it.
bool may_be_finalized(const Capture& capture, PyObject* object, int depth = 0) {
  constexpr Py_ssize_t kFew = 6;
  if (Py_REFCNT(object) > kFew) return false;
  if (PyList_CheckExact(object) || PyTuple_CheckExact(object)) {
    constexpr Py_ssize_t kMost = 64;
    const Py_ssize_t size = std::min(PySequence_Fast_GET_SIZE(object), kMost);
    for (Py_ssize_t i = 0; i < size && depth < 2; ++i) {
      if (may_be_finalized(capture, PySequence_Fast_GET_ITEM(object, i), depth + 1)) return true;
    }
    return false;
  }
  const bool is_told = Py_TYPE(object)->tp_finalize && PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE);
  if (!is_told && !is_watched(object)) return false;
  // What was read out of another object is still held there, where nothing was taken out of anything so far.
  const Source* source = capture.source_of(object);
  return depth > 0 || (source && (source->kind == AccessKind::Argument || took_object_out(capture.journal)));
}

}  // namespace

namespace {
thread_local std::vector<const FrameInterpreter*> t_running;
}

bool FrameInterpreter::is_variable(PyObject* object) {
  for (const FrameInterpreter* frame : t_running) {
    for (const PyRef& local : frame->locals_) {
      PyObject* held = local.get();
      if (held && PyCell_Check(held)) held = PyCell_GET(held);
      if (held == object) return true;
    }
  }
  return false;
}

FrameInterpreter::FrameInterpreter(Capture& capture, PyThreadState* state, FsFrame* frame, FrameRole role)
    : capture_(capture), state_(state), frame_(frame), code_(fs_frame_code(frame)), role_(role) {
  bytes_ = python::checked(PyCode_GetCode(code_));  // without the interpreter's own specialisations
  instructions_ = reinterpret_cast<const Instruction*>(PyBytes_AS_STRING(bytes_.get()));
  next_ = fs_frame_next(frame);
  current_ = next_ > 0 ? next_ - 1 : 0;
  PyObject** given = fs_frame_locals(frame);
  const int locals = code_->co_nlocalsplus, depth = fs_frame_depth(frame);
  locals_.reserve(locals);
  for (int i = 0; i < locals; ++i) locals_.push_back(PyRef::borrow(given[i]));
  local_sources_.resize(locals_.size(), nullptr);
  stack_.reserve(code_->co_stacksize);
  for (int i = 0; i < depth; ++i) stack_.push_back(PyRef::borrow(given[locals + i]));
  if (fs_frame_generator(frame)) {
    // A generator's values move here until it yields: one that is overwritten must be gone at once.
    for (int i = 0; i < locals + depth; ++i) Py_CLEAR(given[i]);
    fs_frame_set_depth(frame, 0);
  } else if (capture.concrete) {
    for (int i = 0; i < depth; ++i) Py_CLEAR(given[locals + i]);  // one that is popped must be gone, too
    fs_frame_set_depth(frame, 0);
  }
  if (role == FrameRole::Waiting)
    shown_ = fs_frame_show(state, frame);
  else
    python::check(fs_frame_link(state, frame, &link_) == 0);
  ++capture_.depth;
  if (role == FrameRole::Entered) {
    level_ = capture_.running.size();
    capture_.entered = true;
  }
  if (role != FrameRole::Passing) capture_.chain = capture_.depth;
  if (capture_.depth == capture_.chain + 1) capture_.called = code_;
  if (!capture_.concrete) remember_closure();
  // CPython has made a tuple of `*args`, and a dict of `**kwargs`.
  int rest = code_->co_argcount + code_->co_kwonlyargcount;
  if (code_->co_flags & CO_VARARGS) capture_.note_truths(locals_[rest++].get());
  if (code_->co_flags & CO_VARKEYWORDS) capture_.note_truths(locals_[rest].get());
  t_running.push_back(this);
}

FrameInterpreter::~FrameInterpreter() {
  std::erase(t_running, this);
  // While the frame is still on the thread's stack: dropping a value may run code that looks at it.
  python::ErrorAside aside;
  stack_.clear();
  locals_.clear();
  --capture_.depth;
  if (role_ != FrameRole::Passing) capture_.chain = capture_.depth;
  if (role_ == FrameRole::Waiting)
    fs_frame_show(state_, shown_);
  else
    fs_frame_unlink(state_, frame_, &link_);
}

// Variables of outer functions are reached through the function's own closure: a function of the same code that was
// made anew has other cells.
void FrameInterpreter::remember_closure() {
  PyObject* function = fs_frame_function(frame_);
  PyObject* closure = function ? reinterpret_cast<PyFunctionObject*>(function)->func_closure : nullptr;
  const Source* source = closure ? capture_.source_of(function) : nullptr;
  if (!source) return;
  const Source* in = capture_.sources.step(source, AccessKind::FunctionClosure);
  auto free_name = [&](Py_ssize_t i) {
    return std::string(
        python::text_of(PyTuple_GET_ITEM(code_->co_localsplusnames, code_->co_nlocalsplus - code_->co_nfreevars + i)));
  };
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(closure); ++i) {
    PyObject* cell = PyTuple_GET_ITEM(closure, i);
    if (!capture_.source_of(cell))
      capture_.remember(cell, capture_.sources.cell(in, static_cast<int64_t>(i), free_name(i)));
  }
}

void FrameInterpreter::admit_stack(size_t index, const Source* source) {
  if (stack_[index]) stack_[index] = capture_.admit_value(stack_[index].get(), source);
}

Ending FrameInterpreter::run(bool throwing) {
  if (throwing && !unwind()) return Ending::Raised;
  return loop(-1, false);
}

void FrameInterpreter::resume(PyRef value, int next) {
  push(std::move(value));
  next_ = next;
}

Ending FrameInterpreter::raise() { return unwind() ? Ending::Stopped : Ending::Raised; }

bool FrameInterpreter::may_finalize() const {
  auto ends = [&](const PyRef& value) { return value && may_be_finalized(capture_, value.get()); };
  return std::any_of(locals_.begin(), locals_.end(), ends) || std::any_of(stack_.begin(), stack_.end(), ends);
}

StoppedFrame FrameInterpreter::take_stopped() {
  return {PyRef::borrow(fs_frame_function(frame_)), code_, std::move(locals_), std::move(stack_), next_, current_};
}

Ending FrameInterpreter::loop(int end, bool once) {
  const bool counts = role_ != FrameRole::Passing;
  while (now_ == State::Runs) {
    if (counts) {
      if (capture_.ticks == capture_.stop_at) return Ending::Stopped;
      capture_.running.resize(level_ + 1);
      capture_.running[level_] = capture_.clock = capture_.ticks++;
    }
    bool failed = false;
    try {
      step();
    } catch (const Break&) {
      throw;
    } catch (...) {
      python::set_python_error_or_runtime_error(std::current_exception());
      failed = true;
    }
    // Code that C code called may have broken the capture; nobody gets to see the error that carried it here.
    if (capture_.broken) {
      PyErr_Clear();
      if (capture_.stopping) return Ending::Stopped;  // in a frame that this one has called
      throw *std::exchange(capture_.broken, std::nullopt);
    }
    if (failed) {
      if (!capture_.concrete) capture_.stop_for_own_error();
      if (!unwind()) return Ending::Raised;
    }
    if ((once || next_ == end) && now_ == State::Runs) return Ending::Stopped;
  }
  return now_ == State::Returned ? Ending::Returned : Ending::Yielded;
}

namespace {

long g_interrupt_after = 0;

}  // namespace

long interrupt_after(long instructions) { return std::exchange(g_interrupt_after, instructions); }

// Between two instructions, where Python of others may run.
void FrameInterpreter::show_progress() {
  constexpr unsigned kSteps = 256;  // from one look at the clock to the next
  static unsigned steps = 0;
  if (++steps % kSteps != 0 || capture_.concrete || !progress_is_due()) return;
  Journal::Hidden hidden(capture_.journal);
  Suspended suspended(capture_);
  OutsideTrace outside;
  tell_progress();
}

// Names of keywords belong to the call that follows: no one may stop in between.
void FrameInterpreter::step() {
  started_ = next_;
  show_progress();
  if (g_interrupt_after > 0 && !capture_.concrete) {
    if (--g_interrupt_after == 0) PyErr_SetInterrupt();
  }
  do {
    step_one();
  } while (keywords_);
  if (Oracle::enabled()) Oracle::look(capture_, code_, PyCode_Addr2Line(code_, current_ * 2), stack_);
}

void FrameInterpreter::step_one() {
  int opcode = instructions_[next_].opcode;
  int arg = instructions_[next_].arg;
  while (opcode == EXTENDED_ARG) {
    ++next_;
    opcode = instructions_[next_].opcode;
    arg = (arg << 8) | instructions_[next_].arg;
  }
  current_ = next_;
  fs_frame_set_instruction(frame_, next_);
  ++next_;
  const Row& row = rows()[opcode];
  if (!row.handler) {
    PyRef names =
        python::checked(PyObject_GetAttrString(python::checked(PyImport_ImportModule("opcode")).get(), "opname"));
    PyRef name = python::checked(PySequence_GetItem(names.get(), opcode));
    capture_.stop(BreakReason::Opcode, std::string(python::text_of(name.get())));
  }
  // Instructions are followed by room for the interpreter's caches; jumps count from behind it.
  while (next_ < PyBytes_GET_SIZE(bytes_.get()) / 2 && instructions_[next_].opcode == CACHE) ++next_;
  (this->*row.handler)(arg);
}

// Who looks at the locals of a frame in a traceback takes it for granted that its first instruction put them there.
void FrameInterpreter::show_free_variables() {
  PyObject* function = fs_frame_function(frame_);
  PyObject* closure = function ? reinterpret_cast<PyFunctionObject*>(function)->func_closure : nullptr;
  if (!closure || code_->co_nfreevars == 0) return;
  PyObject** places = fs_frame_locals(frame_) + code_->co_nlocalsplus - code_->co_nfreevars;
  for (int i = 0; i < code_->co_nfreevars; ++i) {
    if (!places[i]) places[i] = Py_NewRef(PyTuple_GET_ITEM(closure, i));
  }
}

void hide_free_variables(FsFrame* frame) {
  PyCodeObject* code = fs_frame_code(frame);
  PyObject** places = fs_frame_locals(frame) + code->co_nlocalsplus - code->co_nfreevars;
  for (int i = 0; i < code->co_nfreevars; ++i) PyRef old = PyRef::steal(std::exchange(places[i], nullptr));
}

bool FrameInterpreter::unwind() {
  const ExceptionHandler found = find_handler(code_, current_);
  // What the outer frame holds at its end is compared with what it held: it gets them only where it ends here.
  const bool starts = role_ == FrameRole::First || role_ == FrameRole::Waiting;
  if (!starts || found.target < 0) show_free_variables();
  if (!std::exchange(reraises_, false)) {
    PyRef frame = PyRef::steal(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(state_)));
    if (frame) PyTraceBack_Here(reinterpret_cast<PyFrameObject*>(frame.get()));
  }
  if (found.target < 0) {
    // Whatever is left of the frame is dropped while the error waits.
    return false;
  }
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyRef type_ref = PyRef::steal(type), exception = PyRef::steal(value), traceback_ref = PyRef::steal(traceback);
  if (traceback_ref) PyException_SetTraceback(exception.get(), traceback_ref.get());
  while (stack_.size() > static_cast<size_t>(found.depth)) stack_.pop_back();
  if (found.pushes_instruction) push(python::checked(PyLong_FromLong(fs_frame_next(frame_) - 1)));
  push(capture_.made(std::move(exception)));
  next_ = found.target;
  return true;
}

void FrameInterpreter::store() {
  PyObject** place = fs_frame_locals(frame_);
  const int locals = code_->co_nlocalsplus, before = fs_frame_depth(frame_);
  std::vector<PyRef> old;
  for (int i = 0; i < locals; ++i) {
    old.push_back(PyRef::steal(place[i]));
    place[i] = PyRef(locals_[i]).release();
  }
  for (int i = 0; i < before; ++i) old.push_back(PyRef::steal(place[locals + i]));
  for (size_t i = 0; i < stack_.size(); ++i) place[locals + i] = PyRef(stack_[i]).release();
  fs_frame_set_depth(frame_, static_cast<int>(stack_.size()));
  fs_frame_set_next(frame_, next_);
}

void FrameInterpreter::drop_values() {
  stack_.clear();
  locals_.clear();
  if (capture_.broken) throw *std::exchange(capture_.broken, std::nullopt);
}

PyRef FrameInterpreter::pop() { return capture_.closed(pop_open()); }

PyRef FrameInterpreter::pop_open() {
  PyRef value = std::move(stack_.back());
  stack_.pop_back();
  return value;
}

void FrameInterpreter::push_made(PyRef container) {
  capture_.note_truths(container.get());
  push(capture_.made(std::move(container)));
}

namespace {

// Found inside another object, which holds it as long as it lives itself: that one's variable counts.
bool is_held_by_other(const Source* source) {
  constexpr AccessKind kHolding[] = {AccessKind::DictItem,     AccessKind::TensorItem, AccessKind::SequenceItem,
                                     AccessKind::InstanceDict, AccessKind::Member,     AccessKind::CellContents};
  if (!source || !source->parent) return false;
  for (; source->parent; source = source->parent) {
    if (std::find(std::begin(kHolding), std::end(kHolding), source->kind) == std::end(kHolding)) return false;
  }
  return true;
}

}  // namespace

void FrameInterpreter::set_local(int index, PyRef value) {
  const bool untouched = std::exchange(local_sources_[index], nullptr) != nullptr;
  PyRef old = std::exchange(locals_[index], std::move(value));
  if (!capture_.concrete) {
    PyObject* now = locals_[index].get();
    if (!old || old.get() == now || (now && PyCell_Check(now) && PyCell_GET(now) == old.get())) return;
    // The object itself goes only when the piece has run, too late for its __del__ and for who asks after it.
    if (may_be_finalized(capture_, old.get()))
      capture_.stop(BreakReason::Value,
                    "a variable may be the last to hold an object with a __del__ or weak references");
    const Source* source = capture_.source_of(old.get());
    const bool lets_go = (untouched || source) && !is_held_by_other(source) && !python::is_tensor(old.get()) &&
                         !is_guardable_constant(old.get());
    capture_.lets_go = capture_.lets_go || lets_go;
    return;
  }
  PyObject*& place = fs_frame_locals(frame_)[index];
  PyRef old_in_frame = PyRef::steal(place);
  place = PyRef(locals_[index]).release();
}

std::vector<PyRef> FrameInterpreter::pop_many(size_t count) {
  std::vector<PyRef> values = pop_many_open(count);
  for (PyRef& value : values) value = capture_.closed(std::move(value));
  return values;
}

std::vector<PyRef> FrameInterpreter::pop_many_open(size_t count) {
  std::vector<PyRef> values(std::make_move_iterator(stack_.end() - count), std::make_move_iterator(stack_.end()));
  stack_.resize(stack_.size() - count);
  return values;
}

void FrameInterpreter::serve_interrupts() {
  if (!fs_wants_break(state_)) return;
  Journal::Hidden hidden(capture_.journal);
  Suspended suspended(capture_);
  Py_BEGIN_ALLOW_THREADS Py_END_ALLOW_THREADS;
  capture_.interrupted = PyErr_CheckSignals() != 0;
  python::check(!capture_.interrupted);
}

void FrameInterpreter::raise_python(PyObject* type, const std::string& text) {
  PyErr_SetString(type, text.c_str());
  python::throw_python_error();
}

void FrameInterpreter::raise_name_error(PyObject* type, const std::string& text, PyObject* name) {
  PyErr_SetString(type, text.c_str());
  name_error(name, nullptr);
}

void name_error(PyObject* name, PyObject* object) {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (PyObject_SetAttrString(value, "name", name) != 0) PyErr_Clear();
  if (object && PyObject_SetAttrString(value, "obj", object) != 0) PyErr_Clear();
  PyErr_Restore(type, value, traceback);
  python::throw_python_error();
}

}  // namespace firesteel::capture
