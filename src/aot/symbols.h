// The sizes of one trace that may be other ones at the next call: symbols, what they are in this call, and what was
// decided because of it.
//
// A size in traced code is a `c10::SymInt` whose node holds a Dim. Whatever asks a question about it (is it zero, does
// it equal another one) gets the answer that holds for this call; unless the answer holds for all sizes, it becomes a
// guard of the graph.
#pragma once

#include <memory>
#include <vector>

#include <c10/core/SymBool.h>
#include <c10/core/SymInt.h>

#include "graph/graph.h"
#include "shapes/facts.h"
#include "shapes/open_sizes.h"

namespace firesteel {

// Where a symbol's value is found in a call: the size of an argument in dimension `dim`, or a number that is one.
struct SymbolOrigin {
  std::string name;
  int32_t argument = -1;
  int32_t dim = -1;  // -1: the argument is a number
  int64_t hint = 0;  // in the traced call
  int64_t least = 0, most = INT64_MAX;
};

// What a graph takes for granted about its symbols, and the line that made it so.
struct ShapeGuard {
  Relation relation;
  SourceRef source;
};

class FIRESTEEL_API Symbols : public std::enable_shared_from_this<Symbols> {
 public:
  // Asked for the user's line where something is decided.
  using Here = std::function<SourceRef()>;
  explicit Symbols(Here here) : here_(std::move(here)) {}

  Dim add(SymbolOrigin origin);  // its name is given here
  bool empty() const { return origins_.empty(); }
  const std::vector<SymbolOrigin>& origins() const { return origins_; }
  const std::vector<ShapeGuard>& guards() const { return guards_; }
  // What it is in the traced call.
  int64_t hint(const Dim& dim) const;

  // The answer for the traced call, guarded unless it is the same for all.
  bool decide(const Relation& relation);
  // The number that it is in the traced call, guarded.
  int64_t specialise(const Dim& dim);
  bool proves(const Relation& relation) const { return facts_.decide(relation) == true; }
  Dim simplify(const Dim& dim) const { return facts_.simplify(dim); }
  // Those that turned out to be always equal to another one, which stands for them.
  EqualSymbols equal_symbols() const;

  c10::SymInt sym_int(const Dim& dim);

 private:
  Here here_;
  Facts facts_;
  std::vector<SymbolOrigin> origins_;
  std::vector<ShapeGuard> guards_;
};

// The expression of a size; a size that is none of ours is asked for its number.
FIRESTEEL_API Dim dim_of(const c10::SymInt& size);
std::vector<Dim> dims_of(c10::SymIntArrayRef sizes);
// The symbols of a size that is one of ours; null for others.
Symbols* symbols_of(const c10::SymInt& size);

}  // namespace firesteel
