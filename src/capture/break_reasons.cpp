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
  std::string text = "this call cannot be captured, and fullgraph=True allows no graph break";
  if (!place.empty()) text += "\n" + place;
  text += fmt::format("\n  reason: {} [{}]: {}", what(), words.id, words.why);
  if (!inside.empty()) text += "\n  inside: " + inside;
  return text + fmt::format("\n  try: {}", words.next);
}

}  // namespace firesteel::capture
