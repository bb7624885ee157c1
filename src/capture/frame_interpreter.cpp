// The loop: decode, look up, run, until the frame returns.
#include "capture/frame_interpreter.h"

#include <array>

#include <fmt/format.h>

#include "python/errors.h"

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

FrameInterpreter::FrameInterpreter(Capture& capture, PyThreadState* state, FsFrame* frame)
    : capture_(capture), state_(state), frame_(frame), code_(fs_frame_code(frame)) {
  bytes_ = python::checked(PyCode_GetCode(code_));  // without the interpreter's own specialisations
  instructions_ = reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(bytes_.get()));
  PyObject** given = fs_frame_locals(frame);
  for (int i = 0; i < code_->co_nlocalsplus; ++i) locals_.push_back(PyRef::borrow(given[i]));
  local_sources_.resize(locals_.size(), nullptr);
  stack_.reserve(code_->co_stacksize);
  python::check(Py_EnterRecursiveCall(" while capturing a function") == 0);
  fs_frame_link(state, frame, &link_);
  ++capture_.depth;
}

FrameInterpreter::~FrameInterpreter() {
  // While the frame is still on the thread's stack: dropping a value may run code that looks at it.
  stack_.clear();
  locals_.clear();
  --capture_.depth;
  fs_frame_unlink(state_, frame_, &link_);
  Py_LeaveRecursiveCall();
}

PyRef FrameInterpreter::run() {
  try {
    return loop();
  } catch (const Break&) {
    throw;
  } catch (...) {
    python::set_python_error(std::current_exception());
  }
  capture_.stop_for_python_error();
}

PyRef FrameInterpreter::loop() {
  while (!done_) step();
  return std::move(returned_);
}

void FrameInterpreter::step() {
  int opcode = instructions_[2 * next_];
  int arg = instructions_[2 * next_ + 1];
  while (opcode == EXTENDED_ARG) {
    ++next_;
    opcode = instructions_[2 * next_];
    arg = (arg << 8) | instructions_[2 * next_ + 1];
  }
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
  while (next_ < PyBytes_GET_SIZE(bytes_.get()) / 2 && instructions_[2 * next_] == CACHE) ++next_;
  (this->*row.handler)(arg);
}

PyRef FrameInterpreter::pop() {
  PyRef value = std::move(stack_.back());
  stack_.pop_back();
  return value;
}

std::vector<PyRef> FrameInterpreter::pop_many(size_t count) {
  std::vector<PyRef> values(std::make_move_iterator(stack_.end() - count), std::make_move_iterator(stack_.end()));
  stack_.resize(stack_.size() - count);
  return values;
}

void FrameInterpreter::serve_interrupts() {
  if (!fs_wants_break(state_)) return;
  Py_BEGIN_ALLOW_THREADS Py_END_ALLOW_THREADS python::check(PyErr_CheckSignals() == 0);
}

PyObject* interpret_inlined(Capture& capture, PyThreadState* state, FsFrame* frame) noexcept {
  PyRef result;
  try {
    if (!fs_frame_is_fresh(state, frame)) {
      capture.stop(BreakReason::Monitored, std::string(python::text_of(fs_frame_code(frame)->co_name)));
    }
    FrameInterpreter interpreter(capture, state, frame);
    result = interpreter.run();
  } catch (const Break& found) {
    capture.broken = found;
  } catch (...) {
    try {
      python::set_python_error(std::current_exception());
    } catch (const std::exception& error) {
      capture.broken = Break{BreakReason::Internal, error.what(), {}, {}};
    }
  }
  // A break crosses CPython's frames as an error that nobody sees.
  if (capture.broken && !PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "the capture was given up");
  return fs_frame_finish(state, frame, result.release());
}

}  // namespace firesteel::capture
