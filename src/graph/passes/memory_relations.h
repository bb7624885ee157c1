// Which values share memory, and whether one value may take the place of another.
//
// Callers may write to a graph's outputs and inputs afterwards, so a pass must keep memory that eager keeps apart
// apart: an output may neither start to share memory with an input or another output, nor stop.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"

namespace firesteel {

class FIRESTEEL_API MemoryRelations {
 public:
  explicit MemoryRelations(const Graph& graph);  // of a functional graph

  // Whether every use of `dropped` may become `kept`, where both hold the same numbers in the same layout.
  bool may_replace(const Value* dropped, const Value* kept) const;
  // Records that it was done.
  void replaced(const Value* dropped, const Value* kept);
  // Whether an output or a mutation may show the memory of this value.
  bool escapes(const Value* value) const;

 private:
  // Values joined by views. `may`: could share memory; `must`: surely do.
  struct Partition {
    std::vector<size_t> parent;
    size_t root(size_t index) const;
  };
  struct Group {
    size_t outputs = 0;
    size_t updates = 0;
    bool has_input = false;
    bool escapes() const { return outputs + updates > 0; }
  };

  void add_node(const Node& node);
  void join(const Value* a, const Value* b, bool surely);
  void join_may(size_t a, size_t b);
  size_t index(const Value* value) const;
  const Group& group(const Value* value) const;

  std::unordered_map<const Value*, size_t> indices_;
  Partition may_, must_;
  std::vector<Group> groups_;  // by the root of may_
  std::unordered_set<const Value*> inputs_, outputs_, updates_;
};

// The values that replace others, applied in one sweep over the graph.
class Replacements {
 public:
  void add(const Value* from, Value* to) { to_.emplace(from, to); }
  bool empty() const { return to_.empty(); }
  void apply(Node& node) const;               // before the node is looked at
  void apply_to_results(Graph& graph) const;  // outputs and mutations, at the end

 private:
  std::unordered_map<const Value*, Value*> to_;
};

}  // namespace firesteel
