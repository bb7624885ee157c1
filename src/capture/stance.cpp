// The stance's table and state.
#include "capture/stance.h"

namespace firesteel::capture {
namespace {

struct StanceRow {
  std::string_view name, what;
  StanceKind kind;
};
constexpr StanceRow kStances[] = {
#define X(name, text, what) {text, what, StanceKind::name},
    FIRESTEEL_STANCES(X)
#undef X
};

thread_local int t_run_only = 0;

}  // namespace

Stance& stance() {
  static auto* now = new Stance;  // may hold a Python object: never destroyed
  return *now;
}

std::optional<StanceKind> stance_named(std::string_view name) {
  for (const StanceRow& row : kStances) {
    if (row.name == name) return row.kind;
  }
  return std::nullopt;
}

std::vector<std::pair<std::string_view, std::string_view>> stance_rows() {
  std::vector<std::pair<std::string_view, std::string_view>> rows;
  for (const StanceRow& row : kStances) rows.emplace_back(row.name, row.what);
  return rows;
}

StanceKind stance_kind() { return t_run_only > 0 ? StanceKind::EagerOnRecompile : stance().kind; }

RunOnlyScope::RunOnlyScope() { ++t_run_only; }
RunOnlyScope::~RunOnlyScope() { --t_run_only; }

}  // namespace firesteel::capture
