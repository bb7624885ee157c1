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

#include "aot/open_numbers.h"
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

  // The graph computes it (graph/data_symbols.h): nothing is known of it before, and its hint is made up.
  bool from_data() const { return argument < 0; }
};

// Made-up values of symbols that data gives, from attempt to attempt: what the code takes for granted of one may show
// only later that another value must be made up.
struct DataHints {
  std::vector<int64_t> values;  // by the order in which the symbols come up
  bool changed = false;         // the trace is to be made again
};

// What a graph takes for granted about its symbols, and the line that made it so.
struct ShapeGuard {
  Relation relation;
  SourceRef source;
};

// The same for symbols that data gives: looked at when a run has found them out.
struct DataCondition : ShapeGuard {
  bool of_layout = false;  // how tensors lie in memory follows from it, and not what sizes they have
};

class FIRESTEEL_API Symbols : public std::enable_shared_from_this<Symbols> {
 public:
  // Asked for the user's line where something is decided.
  using Here = std::function<SourceRef()>;
  explicit Symbols(Here here) : here_(std::move(here)) {}

  Dim add(SymbolOrigin origin);  // its name is given here
  bool empty() const { return origins_.empty() && !numbers; }
  const std::vector<SymbolOrigin>& origins() const { return origins_; }
  const std::vector<ShapeGuard>& guards() const { return guards_; }
  // What it is in the traced call.
  int64_t hint(const Dim& dim) const;

  // A number that is found out while the graph runs.
  Dim add_data(int64_t least);
  bool any_data() const { return data_count_ > 0; }
  // What a run must find to hold once such numbers are known.
  const std::vector<DataCondition>& data_conditions() const { return data_conditions_; }
  // It holds from now on: where a run finds that it does not, what the graph gives is not used.
  void require(const Relation& relation, bool of_layout = false);
  // It always holds.
  void know(const Relation& relation);
  std::optional<bool> known(const Relation& relation) const { return facts_.decide(relation); }

  // The answer for the traced call, guarded unless it is the same for all. Where data decides, what holds for all sizes
  // but zero and one is taken to hold, and required; what does not ends the trace.
  bool decide(const Relation& relation);
  // The same where it only matters how tensors lie in memory.
  bool decide_layout(const Relation& relation);
  // Whether a size is one, or an order of strides is as in the traced call, where memory alone is concerned: a size of
  // zero or one that data gives makes no difference there.
  bool is_one(const Dim& size);
  void keep(const Relation& order);
  // The number that it is in the traced call, guarded.
  int64_t specialise(const Dim& dim);
  bool proves(const Relation& relation) const { return facts_.decide(relation) == true; }
  Dim simplify(const Dim& dim) const { return facts_.simplify(dim); }
  // Those that turned out to be always equal to another one, which stands for them.
  EqualSymbols equal_symbols() const;

  c10::SymInt sym_int(const Dim& dim);
  c10::SymBool sym_bool(const Relation& relation);

 private:
  bool decide_by_data(const Relation& relation, bool of_layout);
  void make_up_again(const Relation& relation);
  bool hints_meet_conditions() const;

  Here here_;
  Facts facts_;
  std::vector<SymbolOrigin> origins_;
  std::vector<ShapeGuard> guards_;
  Facts likely_;  // what holds where sizes that data gives are two or more
  size_t data_count_ = 0;
  std::vector<DataCondition> data_conditions_;

 public:
  DataHints* data_hints = nullptr;
  // Who keeps numbers that are no sizes, once there are any.
  OpenNumbers* numbers = nullptr;
  // Ends the trace, which asks for a number that only a run can tell. Must throw.
  std::function<void(const std::string& what)> refuse;
};

// The expression of a size; a size that is none of ours is asked for its number.
FIRESTEEL_API Dim dim_of(const c10::SymInt& size);
std::vector<Dim> dims_of(c10::SymIntArrayRef sizes);
// The symbols of a size that is one of ours; null for others.
Symbols* symbols_of(const c10::SymInt& size);
// What is asked by a truth that is one of ours; nothing for others.
FIRESTEEL_API std::optional<Relation> relation_of(const c10::SymNodeImpl& truth);
FIRESTEEL_API bool mentions_data(const Relation& relation);

}  // namespace firesteel
