// Attention for processors with sse.
#include <cstdint>

namespace {
constexpr int kLanes = 4, kVectors = 2;
}

#include "runtime/attention/rows.inc"

namespace firesteel::attention {

void rows_sse(const Head& head, int64_t begin, int64_t end) { rows(head, begin, end); }

}  // namespace firesteel::attention
