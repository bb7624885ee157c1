// Asking whether code is being traced, and saying that what follows must not be.
#pragma once

#include <source_location>
#include <string>

#include "firesteel/export.h"

namespace firesteel {

// Why a function has no graph, and where it said so.
struct FIRESTEEL_API GraphBreak {
  std::string reason;  // "`report` is disabled: it writes a file [FS-DISABLED]"
  std::string file;
  unsigned line = 0;
  std::string str() const;  // "report.cpp:12: `report` is disabled: it writes a file [FS-DISABLED]"
};

// True while firesteel::compile or firesteel::trace runs the calling function on this thread to record it: tensors have
// shapes then, and no data. False in a replay (the function does not run), and wherever it runs eagerly.
FIRESTEEL_API bool is_compiling() noexcept;

// Does nothing where nothing is traced. In a traced function: no graph can hold what follows. A compiled function runs
// as it is for such arguments from then on; firesteel::trace, and compile with `fullgraph`, throw GraphBreakError.
FIRESTEEL_API void graph_break(const std::string& message = {},
                               std::source_location where = std::source_location::current());

}  // namespace firesteel
