// Sizes that a graph leaves open: computed from the values that its symbols have in a call, or put in for good.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "shapes/program.h"

namespace firesteel {

// The values of a trace's symbols in one call: `s3` is the fourth.
using SymbolValues = std::vector<int64_t>;

// Many expressions, computed together.
class FIRESTEEL_API OpenSizes {
 public:
  explicit OpenSizes(std::span<const Dim> dims);

  // One result a Dim. Throws InputMismatchError where one has no value: a division by zero, or a number past 64 bits.
  std::vector<int64_t> run(std::span<const int64_t> symbols) const;

 private:
  std::vector<std::string> names_;
  DimProgram program_;
  size_t count_;
};

// `s0`, `s1`, `u2` … as far as these expressions go.
std::vector<std::string> symbol_names(std::span<const Dim> dims);

// The same for once.
FIRESTEEL_API std::vector<int64_t> sizes_of(std::span<const Dim> dims, std::span<const int64_t> symbols);

// One symbol in place of others that are always equal to it.
using EqualSymbols = std::map<std::string, Dim, std::less<>>;
void rename(Graph& graph, const EqualSymbols& equal);

// An argument without tensors as an operator takes it.
c10::IValue constant_of(const Arg& arg, std::span<const int64_t> symbols);

// The graph for one value of each symbol: all sizes are numbers.
FIRESTEEL_API Graph with_sizes(const Graph& graph, std::span<const int64_t> symbols);
FIRESTEEL_API bool has_symbols(const Graph& graph);

}  // namespace firesteel
