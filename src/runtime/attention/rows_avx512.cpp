// Attention for processors with avx512.
#include <cstdint>

namespace {
constexpr int kLanes = 16, kVectors = 4;
}

#include "runtime/attention/rows.inc"

namespace firesteel::attention {

void rows_avx512(const Head& head, int64_t begin, int64_t end) { rows(head, begin, end); }

}  // namespace firesteel::attention
