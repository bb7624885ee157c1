// Shows runs of compiled code to whoever watches torch's operators: torch.profiler, and the log of record_trace().
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <ATen/record_function.h>

#include "firesteel/export.h"
#include "graph/graph.h"

namespace firesteel {

// What every name that is shown begins with.
inline constexpr std::string_view kWatchedPrefix = "firesteel ";

// Whether anybody watches what this thread runs: what a call asks once, before it takes the trouble to make names.
inline bool is_watched() { return at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value(); }

// Watchers see one operator of this name from begin to end.
class FIRESTEEL_API WatchedRun {
 public:
  explicit WatchedRun(std::string_view name);

 private:
  at::RecordFunction record_;
};

// "firesteel kernel add, relu (train.py:12)"; an operator alone is "firesteel aten.mm (train.py:11)".
std::string watched_name(std::span<const Node* const> nodes, bool is_kernel);
// "train.py:12", of a path and a line.
FIRESTEEL_API std::string watched_place(std::string_view path, int64_t line);

// One run of something that has a name, as the log keeps it.
struct LoggedRun {
  std::string name;
  uint64_t thread = 0;            // the system's number of it
  double began = 0, seconds = 0;  // by the steady clock
};
struct RunLog {
  std::vector<LoggedRun> runs;  // in the order they ended
  uint64_t left_out = 0;        // the log was full
};
// From now on until stop_run_log() every watched run of every thread is kept.
FIRESTEEL_API void start_run_log();
FIRESTEEL_API RunLog stop_run_log();

}  // namespace firesteel
