// Attention of one head over a range of its queries, for one kind of processor each.
//
// Rows of queries are taken six at a time: their scores against all keys stand in a buffer small enough for the nearest
// caches, become weights there, and meet the values. Keys come transposed, so that scores lie side by side in vectors.
#pragma once

#include <cstdint>

namespace firesteel::attention {

struct Head {
  const float *queries, *keys, *values;
  const float* mask;  // added to the scores; null: none
  float* out;
  float* logs;  // the logarithm of each row's sum of exponentials
  int64_t query_stride, key_stride, value_stride, out_stride, log_stride;  // in elements, from row to row
  int64_t mask_row, mask_column;                                           // 0: the same for all
  int64_t query_count, key_count, width;
  float scale;
  bool causal;  // a query sees the keys up to its own place
  float* room;  // of room_for() elements
};

constexpr int64_t kRows = 6;
constexpr int64_t kPadding = 64;  // the longest step along keys, of any processor

inline int64_t padded(int64_t keys) { return (keys + kPadding - 1) / kPadding * kPadding; }
// For the transposed keys and the scores of some rows.
inline int64_t room_for(int64_t keys, int64_t width) { return padded(keys) * (width + kRows); }

// Queries from `begin` to `end`. The width divides by 16.
using Rows = void (*)(const Head& head, int64_t begin, int64_t end);
void rows_avx512(const Head& head, int64_t begin, int64_t end);
void rows_avx2(const Head& head, int64_t begin, int64_t end);
void rows_sse(const Head& head, int64_t begin, int64_t end);

}  // namespace firesteel::attention
