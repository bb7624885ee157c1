// From a trace to something callable: the one way both language layers go.
#pragma once

#include "aot/trace.h"
#include "firesteel/stage_times.h"
#include "runtime/executable.h"

namespace firesteel {

struct CompilerOptions {
  bool passes = true;  // off: the graph stays as recorded
  PartitionOptions partition;
  NativeCode native = NativeCode::None;
  bool freeze = false;  // of native code that is not differentiated: weights are prepared once
};

// The names of the passes, in the order in which they run.
FIRESTEEL_API std::vector<std::string_view> pass_order();

// `times`: where the stages' times are put, if given.
FIRESTEEL_API Executable compile_trace(Trace trace, const CompilerOptions& options = {}, StageTimes* times = nullptr);

// The first stage too: runs the function on fakes.
FIRESTEEL_API Executable compile_function(const FlatFunction& function, const std::vector<at::Tensor>& inputs,
                                          const TraceOptions& trace_options, const CompilerOptions& options = {},
                                          StageTimes* times = nullptr);

}  // namespace firesteel
