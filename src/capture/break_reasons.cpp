// The words of a break.
#include "capture/break_reasons.h"

#include <fmt/format.h>

namespace firesteel::capture {

const BreakRow& row(BreakReason reason) {
  static constexpr BreakRow kRows[] = {
#define X(name, id, what, why, next) {id, what, why, next},
      FIRESTEEL_BREAK_REASONS(X)
#undef X
  };
  return kRows[static_cast<size_t>(reason)];
}

std::string Break::what() const { return fmt::format(fmt::runtime(row(reason).what), detail); }

std::string Break::message() const {
  const BreakRow& words = row(reason);
  const bool by_policy = is_error && !in_whole_stretch;
  const char* forbids = by_policy ? "error_on_graph_break(True)" : "fullgraph=True";
  std::string text = fmt::format("this call cannot be captured, and {} allows no graph break", forbids);
  if (!place.empty()) text += "\n" + place;
  text += fmt::format("\n  reason: {} [{}]: {}", what(), words.id, words.why);
  if (!inside.empty()) text += "\n  inside: " + inside;
  std::string next = words.next;
  constexpr std::string_view kDrop = "drop fullgraph=True";
  if (const size_t at = next.find(kDrop); by_policy && at != std::string::npos)
    next.replace(at, kDrop.size(), "allow graph breaks here");
  return text + fmt::format("\n  try: {}", next);
}

}  // namespace firesteel::capture
