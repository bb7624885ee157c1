// Arithmetic on sizes that may be open: what holds for all values of their symbols, and guesses where only speed
// depends on the answer.
#pragma once

#include <optional>
#include <span>

#include "graph/dim.h"

namespace firesteel {

inline bool is_number(const Dim& dim, int64_t number) { return dim.is_number() && dim.number() == number; }

// Whether both are the same for all values of their symbols; false where that is not plain to see.
bool surely_equal(const Dim& a, const Dim& b);
// a / b where both are above 0 and that leaves no rest, whatever the symbols are.
std::optional<Dim> exact_quotient(const Dim& a, const Dim& b);
Dim product(std::span<const Dim> dims);

// A number to compare sizes and strides by, as if every symbol were of middling size. Never a reason for correctness.
int64_t estimate(const Dim& dim);

}  // namespace firesteel
