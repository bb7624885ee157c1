// Tells Python what compiled functions do besides serving calls: captures, recompiles, eager runs. Nobody listens
// unless asked to, and calls that are served never come here.
#pragma once

#include "capture/region.h"

namespace firesteel::capture {

// Called as listener(kind, facts): ("capture", what describe() gives), ("recompile", …), ("fallback", …), ("error", …).
// None: nobody is called.
void set_event_listener(PyObject* listener);
// Called with a short description of each piece right after it was captured, for torch._dynamo's counters.
void set_capture_listener(PyObject* listener);

// Called as listener(stage, done, asked, seconds of the stage, seconds) now and then while something is compiled for
// longer than two seconds; with an empty stage when it has ended.
void set_progress_listener(PyObject* listener);

void tell_capture(const Segment& segment);
void tell_recompile(const Recompile& note);
void tell_fallback(PyCodeObject* code, BreakReason reason);
// The Python error that is set, where it is one of Firesteel's own; it stays set.
void tell_error(PyCodeObject* code);

}  // namespace firesteel::capture
