// Runs one frame's bytecode over real Python values, with stand-ins for tensors, on a stack and locals of its own.
//
// The frame itself is only linked into the thread's stack, so that lines and tracebacks are right; what it holds stays
// as it was until store() is called, which is what makes "run it eagerly from here" possible at any point. With a
// concrete capture the same instructions run for real.
#pragma once

#include <optional>
#include <vector>

#include "capture/capture.h"
#include "capture/cpython/frame_shim.h"
#include "capture/cpython/opcodes.h"

namespace firesteel::capture {

enum class Ending {
  Returned,
  Raised,   // a Python error is set
  Yielded,  // a generator: the frame holds its state
  Stopped,  // at the instruction that was asked for
};

// What a frame is to the capture. It may end in the frames that start with it, and in those that their calls enter.
enum class FrameRole {
  Passing,  // it runs to its end
  First,    // the capture starts with it
  Waiting,  // the same; it waited for another frame, and is on the thread's stack already
  Entered,  // called by one of these
};

class FrameInterpreter {
 public:
  FrameInterpreter(Capture& capture, PyThreadState* state, FsFrame* frame, FrameRole role = FrameRole::Passing);
  ~FrameInterpreter();
  FrameInterpreter(const FrameInterpreter&) = delete;
  FrameInterpreter& operator=(const FrameInterpreter&) = delete;

  // Where a local's value came from; it is guarded when it is first read.
  void set_local_source(size_t index, const Source* source) { local_sources_[index] = source; }
  // The same for a value on the stack, which is guarded now.
  void admit_stack(size_t index, const Source* source);
  // Another value for a local, in this capture only.
  void replace_local(size_t index, PyRef value) { locals_[index] = std::move(value); }

  // Throws a Break. `throwing`: an exception is raised where the frame stands.
  Ending run(bool throwing = false);
  // Runs until `end` is next, at least one instruction; or just one.
  Ending run_to(int end) { return loop(end, false); }
  Ending run_one() { return loop(-1, true); }
  // The frame it waited for has given a value, or raised the error that is set. It does not run yet.
  void resume(PyRef value, int next);
  Ending raise();
  PyRef take_result() { return std::move(result_); }

  const std::vector<PyRef>& locals() const { return locals_; }
  const std::vector<PyRef>& stack() const { return stack_; }
  // One of the frames that this thread interprets has the object as a variable: it is alive in any run of the code.
  static bool is_variable(PyObject* object);
  bool is_untouched(size_t local) const { return local_sources_[local] != nullptr; }
  int next() const { return next_; }
  int current() const { return current_; }
  // Whether its end may be the end of an object from outside that has a __del__ or is asked after.
  bool may_finalize() const;
  // What it holds, taken out of it: the capture ends here.
  StoppedFrame take_stopped();

  // Drops what the frame still holds, as its end does: finalizers run, and belong to the capture.
  void drop_values();
  // Back before the instruction that could not be run.
  void go_back() { next_ = started_; }
  // Puts locals, stack and the next instruction into the frame.
  void store();

 private:
  using Handler = void (FrameInterpreter::*)(int arg);
  struct Row {
    const char* name = nullptr;
    Handler handler = nullptr;
  };
  static const Row* rows();

  void remember_closure();
  Ending loop(int end, bool once);
  void step();
  void step_one();
  void show_free_variables();
  // Goes to the handler of the Python error that is set; false where the frame has none.
  bool unwind();
  // With truths decided, as whoever looks at a value needs it; the other two leave them open (open_truths.cpp).
  PyRef pop();
  PyRef pop_open();
  std::vector<PyRef> pop_many_open(size_t count);
  // What was made of values that were left open.
  void push_made(PyRef container);
  void push(PyRef value) { stack_.push_back(std::move(value)); }
  PyRef& top(int depth = 1) { return stack_[stack_.size() - depth]; }
  std::vector<PyRef> pop_many(size_t count);
  PyObject* name(int index) const { return PyTuple_GET_ITEM(code_->co_names, index); }
  // Running for real, others may look at the frame's locals.
  void set_local(int index, PyRef value);
  void jump_if(bool condition, int delta) {
    if (condition) next_ += delta;
  }
  void pop_jump_if(bool truth, int delta);
  // Where the other side of a branch on a tensor only raises: the graph asserts that it is not taken.
  std::optional<bool> side_that_goes_on(PyObject* value, int if_true, int if_false);
  void unary(const char* operation, PyObject* (*run)(PyObject*));
  PyRef unpacked(PyObject* value);
  PyRef make_super();
  // Where no break can come: it is the frame's own dict, which each call brings up to date.
  bool may_make_locals() const;
  PyRef make_locals();
  PyRef variables();
  // Calls a function now, and shows it what is known here (show_inside.h).
  PyRef show_inside(PyObject* function);
  // The top's attribute in its place; for a call, two places: the method and its self, or nothing and the callable.
  void push_attribute(PyObject* name);
  void push_method(PyObject* name);
  void serve_interrupts();
  void show_progress();
  PyRef globals_dict(const Source*& source);
  void guard_builtins(PyObject* globals, const Source* in);
  PyRef load_name(PyObject* wanted);
  void add_to_dict(PyObject* dict, PyObject* key, PyObject* value);
  [[noreturn]] void raise_python(PyObject* type, const std::string& text);
  [[noreturn]] void raise_name_error(PyObject* type, const std::string& text, PyObject* name);

  // One handler an instruction of the table; several instructions may share one.
#define FIRESTEEL_DECLARE(opcode, handler) void handler(int arg);
  FIRESTEEL_HANDLERS(FIRESTEEL_DECLARE)
#undef FIRESTEEL_DECLARE

  Capture& capture_;
  PyThreadState* state_;
  FsFrame* frame_;
  FsLink link_;
  PyCodeObject* code_;
  PyRef bytes_;
  struct Instruction {
    unsigned char opcode, arg;
  };
  const Instruction* instructions_;
  int next_ = 0;     // the instruction after the one that runs
  int current_ = 0;  // the one that runs
  int started_ = 0;  // the first of those that belong together with it
  std::vector<PyRef> locals_, stack_;
  std::vector<const Source*> local_sources_;
  PyRef keywords_;  // KW_NAMES for the next CALL
  PyRef result_;
  PyRef given_locals_;     // the dict that locals() gives
  bool reraises_ = false;  // the error that is set keeps its traceback
  enum class State { Runs, Returned, Yielded } now_ = State::Runs;
  const FrameRole role_;
  size_t level_ = 0;          // among the frames whose instructions are counted: 0 for those the capture starts with
  FsFrame* shown_ = nullptr;  // what was the top of the thread's stack in place of a frame that waited
};

// A traceback may have needed them in a frame that has not run yet; its first instruction puts them there itself.
void hide_free_variables(FsFrame* frame);

// Takes the frame of a function called inside: what the frame hook does with it. Never throws.
PyObject* interpret_inlined(Capture& capture, PyThreadState* state, FsFrame* frame, int throwing) noexcept;

// For tests: Ctrl-C is pressed after so many captured instructions; 0: not. Gives how many were left.
long interrupt_after(long instructions);

}  // namespace firesteel::capture
