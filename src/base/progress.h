// How far a compilation has come, told now and then to whoever waits for it for longer than two seconds.
#pragma once

#include <cstddef>
#include <string_view>

#include "firesteel/export.h"

namespace firesteel {

struct ProgressNews {
  std::string_view stage;      // empty: the compilation has ended
  size_t done = 0, asked = 0;  // of what the stage counts; asked 0: nobody knows how many there will be
  double stage_seconds = 0;    // since the stage began
  double seconds = 0;          // since the compilation did
};
using ProgressListener = void (*)(const ProgressNews& news);
FIRESTEEL_API void set_progress_listener(ProgressListener listener);

// While one lives this thread compiles; those within another are part of that one.
class FIRESTEEL_API Compiling {
 public:
  Compiling();
  ~Compiling();
  Compiling(const Compiling&) = delete;
  Compiling& operator=(const Compiling&) = delete;
};

// From here on, to its end, the compilation of this thread is at this stage. Its beginning is told where that is due.
class FIRESTEEL_API ProgressStage {
 public:
  explicit ProgressStage(std::string_view name, size_t asked = 0);
  ~ProgressStage();
  ProgressStage(const ProgressStage&) = delete;
  ProgressStage& operator=(const ProgressStage&) = delete;

 private:
  std::string_view outer_;
  size_t outer_done_, outer_asked_;
  double outer_began_;
};

// One more of what the stage counts is done.
FIRESTEEL_API void count_progress();

// Whether somebody has waited long, and was told nothing lately; and telling.
FIRESTEEL_API bool progress_is_due();
FIRESTEEL_API void tell_progress();
inline void tell_progress_if_due() {
  if (progress_is_due()) tell_progress();
}

// For tests: somebody has waited long after so many seconds; gives what it was.
FIRESTEEL_API double set_progress_patience(double seconds);

}  // namespace firesteel
