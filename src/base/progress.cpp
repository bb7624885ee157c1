// Keeps, for each thread, what it compiles and since when.
#include "base/progress.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

namespace firesteel {
namespace {

constexpr double kBetween = 0.1;  // seconds from one telling to the next
std::atomic<ProgressListener> g_listener = nullptr;
std::atomic<double> g_patience = 2;  // seconds

struct State {
  int depth = 0;  // of Compiling
  double began = 0, told = 0;
  bool was_told = false;
  std::string_view stage;
  size_t done = 0, asked = 0;
  double stage_began = 0;
};
thread_local State t_state;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void set_progress_listener(ProgressListener listener) { g_listener = listener; }

double set_progress_patience(double seconds) { return g_patience.exchange(seconds); }

Compiling::Compiling() {
  State& state = t_state;
  if (state.depth++ > 0) return;
  state.began = state.stage_began = seconds_now();
  state.was_told = false;
}

Compiling::~Compiling() {
  State& state = t_state;
  if (--state.depth > 0 || !state.was_told) return;
  const ProgressListener listener = g_listener;
  if (listener) listener({{}, 0, 0, 0, seconds_now() - state.began});
}

ProgressStage::ProgressStage(std::string_view name, size_t asked)
    : outer_(std::exchange(t_state.stage, name)),
      outer_done_(std::exchange(t_state.done, 0)),
      outer_asked_(std::exchange(t_state.asked, asked)),
      outer_began_(std::exchange(t_state.stage_began, t_state.depth ? seconds_now() : 0)) {
  tell_progress_if_due();
}

ProgressStage::~ProgressStage() {
  State& state = t_state;
  state.stage = outer_;
  state.done = outer_done_;
  state.asked = outer_asked_;
  state.stage_began = outer_began_;
}

void count_progress() { ++t_state.done; }

bool progress_is_due() {
  const State& state = t_state;
  if (!state.depth || !g_listener.load(std::memory_order_relaxed)) return false;
  const double now = seconds_now(), patience = g_patience.load(std::memory_order_relaxed);
  return now - state.began >= patience && (!state.was_told || now - state.told >= std::min(kBetween, patience));
}

void tell_progress() {
  const ProgressListener listener = g_listener;
  State& state = t_state;
  if (!listener || !state.depth) return;
  const double now = seconds_now();
  state.told = now;
  state.was_told = true;
  listener({state.stage, state.done, state.asked, now - state.stage_began, now - state.began});
}

}  // namespace firesteel
