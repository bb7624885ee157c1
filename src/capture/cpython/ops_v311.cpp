// Instructions that only CPython 3.11 has, or has in this form.
#include "capture/callables.h"
#include "capture/frame_interpreter.h"

namespace firesteel::capture {

void FrameInterpreter::load_attr(int arg) { push_attribute(name(arg)); }
void FrameInterpreter::load_bound_method(int arg) { push_method(name(arg)); }

void FrameInterpreter::pop_jump_backward_if_true(int arg) {
  serve_interrupts();
  pop_jump_if(true, -arg);
}
void FrameInterpreter::pop_jump_backward_if_false(int arg) {
  serve_interrupts();
  pop_jump_if(false, -arg);
}
void FrameInterpreter::pop_jump_backward_if_none(int arg) { jump_if(pop().get() == Py_None, -arg); }
void FrameInterpreter::pop_jump_backward_if_not_none(int arg) { jump_if(pop().get() != Py_None, -arg); }

void FrameInterpreter::jump_if_true_or_pop(int arg) {
  top() = capture_.closed(std::move(top()));
  const bool jumps = is_true(capture_, top().get());
  jump_if(jumps, arg);
  if (!jumps) pop();
}

void FrameInterpreter::jump_if_false_or_pop(int arg) {
  top() = capture_.closed(std::move(top()));
  const bool jumps = !is_true(capture_, top().get());
  jump_if(jumps, arg);
  if (!jumps) pop();
}

}  // namespace firesteel::capture
