// Rules of builtins that are defined apart from the table of them all (builtins.cpp).
#pragma once

#include "capture/capture.h"
#include "capture/marked_calls.h"

namespace firesteel::capture {

// Ends the capture at a call that is not known.
[[noreturn]] void refuse(Capture& capture, PyObject* callable);

// builtin_items.cpp: iter, next; enumerate, zip, map, itertools; list, tuple; sorted, min, max; set; sum, any, all;
// reversed; dict.
#define FIRESTEEL_ITEM_RULES(X) \
  X(iterate)                    \
  X(next_item)                  \
  X(over_iterables)             \
  X(of_items)                   \
  X(of_ordered_items)           \
  X(of_hashed_items)            \
  X(sum_of)                     \
  X(is_any)                     \
  X(is_all)                     \
  X(reverse)                    \
  X(make_dict)
#define X(name) PyRef name(Capture& capture, PyObject* callable, CallArgs& args);
FIRESTEEL_ITEM_RULES(X)
#undef X

// ops_values.cpp: operator.iadd and its like, as `+=` does it.
PyRef assign_operator(Capture& capture, PyObject* callable, CallArgs& args);

// ops_exceptions.cpp: traceback.clear_frames.
PyRef forget_frames(Capture& capture, PyObject* callable, CallArgs& args);

// copies.cpp
PyRef copy_of(Capture& capture, PyObject* callable, CallArgs& args);
PyRef slot_names(Capture& capture, PyObject* callable, CallArgs& args);

// torch_state_rules.cpp
const std::vector<ControlRule>& torch_state_rules();

// identities.cpp
PyRef hash_of(Capture& capture, PyObject* callable, CallArgs& args);
PyRef address(Capture& capture, PyObject* callable, CallArgs& args);
// What is made once, while the code is captured (constant_rules.cpp); numbers of the thread (identities.cpp).
PyRef evaluate(Capture& capture, PyObject* callable, CallArgs& args);
PyRef lines_of_traceback(Capture& capture, PyObject* callable, CallArgs& args);
PyRef of_this_thread(Capture& capture, PyObject* callable, CallArgs& args);

}  // namespace firesteel::capture
