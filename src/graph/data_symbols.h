// Symbols whose values a graph computes itself: what `.item()` reads, how many elements a mask picks.
//
// They are named `u0`, `u1`, …, and numbered together with those that arguments give (`s2`). The node that finds one
// out is the first that has it as its result, or as a size of its result.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace firesteel {

FIRESTEEL_API bool is_data_symbol(const Dim& dim);  // itself
FIRESTEEL_API bool mentions_data(const Dim& dim);
FIRESTEEL_API bool has_data_symbols(const Graph& graph);

// Where a symbol's value is found among a node's results.
struct DataSymbol {
  size_t symbol;     // its number
  size_t result;     // of the node
  int32_t dim = -1;  // of that result; -1: the result is the number
};
// Those that an operator finds out, by reading data; empty for all others.
FIRESTEEL_API std::vector<DataSymbol> data_symbols_of(const Node& node);

// The number in a symbol's name.
FIRESTEEL_API size_t symbol_number(std::string_view name);

// The type of a number that is read from data: an int that is a symbol.
FIRESTEEL_API Type data_number_type(const Dim& symbol);

}  // namespace firesteel
