// Runs one frame's bytecode over real Python values, with stand-ins for tensors, on a stack and locals of its own.
//
// The frame itself is only linked into the thread's stack, so that lines and tracebacks are right; its locals stay as
// the call left them, which is what makes "run it eagerly from its start" possible at any point.
#pragma once

#include <vector>

#include "capture/capture.h"
#include "capture/cpython/frame_shim.h"
#include "capture/cpython/opcodes.h"

namespace firesteel::capture {

class FrameInterpreter {
 public:
  FrameInterpreter(Capture& capture, PyThreadState* state, FsFrame* frame);
  ~FrameInterpreter();
  FrameInterpreter(const FrameInterpreter&) = delete;
  FrameInterpreter& operator=(const FrameInterpreter&) = delete;

  // Where a parameter's value came from; it is guarded when it is first read.
  void set_local_source(size_t index, const Source* source) { local_sources_[index] = source; }

  // The frame's result. Throws a Break, or the Python error of an interrupt.
  PyRef run();

 private:
  using Handler = void (FrameInterpreter::*)(int arg);
  struct Row {
    const char* name = nullptr;
    Handler handler = nullptr;
  };
  static const Row* rows();

  PyRef loop();
  void step();
  PyRef pop();
  void push(PyRef value) { stack_.push_back(std::move(value)); }
  PyRef& top(int depth = 1) { return stack_[stack_.size() - depth]; }
  std::vector<PyRef> pop_many(size_t count);
  PyObject* name(int index) const { return PyTuple_GET_ITEM(code_->co_names, index); }
  void jump_if(bool condition, int delta) {
    if (condition) next_ += delta;
  }
  void unary(const char* operation, PyObject* (*run)(PyObject*));
  PyRef binary(int operation, PyObject* left, PyObject* right);
  PyRef unpacked(PyObject* value);
  PyRef make_super();
  void serve_interrupts();

  // One handler an instruction of the table; several instructions may share one.
  void nop(int arg);
  void resume(int arg);
  void pop_top(int arg);
  void push_null(int arg);
  void copy(int arg);
  void swap(int arg);
  void load_const(int arg);
  void load_fast(int arg);
  void store_fast(int arg);
  void delete_fast(int arg);
  void load_global(int arg);
  void store_global(int arg);
  void make_cell(int arg);
  void copy_free_vars(int arg);
  void load_closure(int arg);
  void load_deref(int arg);
  void store_deref(int arg);
  void load_attr(int arg);
  void load_method_(int arg);
  void store_attr(int arg);
  void unary_positive(int arg);
  void unary_negative(int arg);
  void unary_invert(int arg);
  void unary_not(int arg);
  void binary_op(int arg);
  void binary_subscr(int arg);
  void store_subscr(int arg);
  void compare_op(int arg);
  void is_op(int arg);
  void contains_op(int arg);
  void build_tuple(int arg);
  void build_list(int arg);
  void build_set(int arg);
  void build_map(int arg);
  void build_const_key_map(int arg);
  void build_slice(int arg);
  void build_string(int arg);
  void format_value(int arg);
  void list_append(int arg);
  void list_extend(int arg);
  void list_to_tuple(int arg);
  void set_add(int arg);
  void map_add(int arg);
  void dict_update(int arg);
  void dict_merge(int arg);
  void unpack_sequence(int arg);
  void unpack_ex(int arg);
  void get_iter(int arg);
  void for_iter(int arg);
  void jump_forward(int arg);
  void jump_backward(int arg);
  void pop_jump_forward_if_true(int arg);
  void pop_jump_forward_if_false(int arg);
  void pop_jump_backward_if_true(int arg);
  void pop_jump_backward_if_false(int arg);
  void pop_jump_forward_if_none(int arg);
  void pop_jump_forward_if_not_none(int arg);
  void pop_jump_backward_if_none(int arg);
  void pop_jump_backward_if_not_none(int arg);
  void jump_if_true_or_pop(int arg);
  void jump_if_false_or_pop(int arg);
  void kw_names(int arg);
  void call_(int arg);
  void call_function_ex(int arg);
  void make_function(int arg);
  void return_value(int arg);
  void raise_varargs(int arg);

  Capture& capture_;
  PyThreadState* state_;
  FsFrame* frame_;
  FsLink link_;
  PyCodeObject* code_;
  PyRef bytes_;
  const unsigned char* instructions_;
  int next_ = 0;  // the instruction after the one that runs
  std::vector<PyRef> locals_, stack_;
  std::vector<const Source*> local_sources_;
  PyRef keywords_;  // KW_NAMES for the next CALL
  PyRef returned_;
  bool done_ = false;
};

// Takes the frame of a function called inside: what the frame hook does with it. Never throws.
PyObject* interpret_inlined(Capture& capture, PyThreadState* state, FsFrame* frame) noexcept;

}  // namespace firesteel::capture
