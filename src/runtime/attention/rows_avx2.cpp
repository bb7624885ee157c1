// Attention for processors with avx2.
#include <cstdint>

namespace {
constexpr int kLanes = 8, kVectors = 2;
}

#include "runtime/attention/rows.inc"

namespace firesteel::attention {

void rows_avx2(const Head& head, int64_t begin, int64_t end) { rows(head, begin, end); }

}  // namespace firesteel::attention
