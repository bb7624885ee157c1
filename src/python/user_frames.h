// Finds the user's own line in the stack of Python frames: for every recorded operator, and for every error.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "python/py_ref.h"

namespace firesteel::python {

// Learns which folders hold torch's and Firesteel's own Python; called once, when the module is loaded.
void set_library_folders(std::vector<std::string> folders);

// The line of the innermost frame of this thread that is the user's. Callable without the GIL; null without a frame.
// Installed as the source provider of the tracer.
SourceRef user_source();

// Of all frames of this thread inside the trace, those of libraries included, the innermost first. The GIL is held.
std::vector<SourceRef> whole_stack();

// While one lives, lines are remembered by code object and instruction; the last one to go forgets them all, and with
// them the code objects it kept alive.
class SourceScope {
 public:
  SourceScope();
  ~SourceScope();
  SourceScope(const SourceScope&) = delete;
  SourceScope& operator=(const SourceScope&) = delete;

 private:
  PyFrameObject* outer_caller_;
};

// While one lives, user_source() gives copies of its own on this thread: what one call has recorded can be told from
// what another call of the same line has, in the backward, too.
class OwnSources {
 public:
  OwnSources();
  ~OwnSources();
  OwnSources(const OwnSources&) = delete;
  OwnSources& operator=(const OwnSources&) = delete;
  static const OwnSources* current();
  const std::vector<SourceRef>& copies() const { return copies_; }

 private:
  friend SourceRef user_source();
  SourceRef copy_of(const SourceRef& source);

  OwnSources* outer_;
  std::vector<SourceRef> originals_, copies_;
};

// A place in the user's program, as an error shows it.
struct UserLine {
  PyRef code;     // may be empty
  PyRef globals;  // for linecache, where the source came from a loader
  std::string file, function;
  int line = 0;
  int instruction = -1;  // byte offset in the code; -1: no position to underline
};

// True for a file of torch, of Firesteel, or of the import machinery.
bool is_library(std::string_view path);

// True while firesteel.trace runs on this thread.
bool inside_trace();
// Which trace of this thread that is: another one for each, those inside it included.
uint64_t trace_number();

// The user's frames of this thread, innermost first, at most `limit`. The GIL is held.
std::vector<UserLine> user_lines(size_t limit);

// Where a function of the user's returns: its one `return` line, or its first line where there are several.
std::optional<UserLine> return_line(PyObject* function);

// `  train.py:41  y = x.item()` and a line of carets under the expression where Python knows it; ends without a
// newline.
std::string show(const UserLine& line);

// show() of the innermost user frame, then `inside: …` with the frames around it; empty without one. The GIL is held.
std::string show_user_line();

}  // namespace firesteel::python
