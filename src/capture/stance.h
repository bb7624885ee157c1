// How compiled functions behave for the time being: set_stance(), and run().
#pragma once

#include <cstdint>
#include <string_view>

#include "capture/runner.h"

namespace firesteel::capture {

// One table: name, what Python calls it, what it means.
#define FIRESTEEL_STANCES(X)                                                                                   \
  X(Default, "default", "compiles as asked")                                                                   \
  X(ForceEager, "force_eager", "runs everything eagerly")                                                      \
  X(EagerOnRecompile, "eager_on_recompile", "uses what is compiled, and runs eagerly what is not")             \
  X(FailOnRecompile, "fail_on_recompile", "uses what is compiled, and raises an error where nothing fits")     \
  X(EagerThenCompile, "eager_then_compile", "runs a function's first call eagerly, and compiles from then on") \
  X(AotEagerThenCompile, "aot_eager_then_compile", "serves a function's first call by the backend aot_eager")

enum class StanceKind : uint8_t {
#define X(name, text, what) name,
  FIRESTEEL_STANCES(X)
#undef X
};

struct Stance {
  StanceKind kind = StanceKind::Default;
  std::optional<BackendChoice> backend;  // for all functions, whatever they asked for
};

// The program's stance; guarded by the GIL.
Stance& stance();
std::optional<StanceKind> stance_named(std::string_view name);
std::vector<std::pair<std::string_view, std::string_view>> stance_rows();

// What holds on this thread: inside run() nothing is compiled.
StanceKind stance_kind();

class RunOnlyScope {
 public:
  RunOnlyScope();
  ~RunOnlyScope();
  RunOnlyScope(const RunOnlyScope&) = delete;
  RunOnlyScope& operator=(const RunOnlyScope&) = delete;
};

}  // namespace firesteel::capture
