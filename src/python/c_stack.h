// How much of the thread's C stack is left. Python functions that call each other need none of it, but Firesteel does.
#pragma once

namespace firesteel::python {

// Less than a third is left: no new work may be begun that takes much of it.
bool c_stack_is_low();

}  // namespace firesteel::python
