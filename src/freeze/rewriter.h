// Goes through the nodes of a graph in order and builds it anew: each node stays, changes, or gives way to others.
#pragma once

#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "graph/graph.h"

namespace firesteel {

// Values that are the same at each call as long as the weights are: the weights, and what is computed of them alone.
using ConstantValues = std::unordered_set<const Value*>;
ConstantValues constant_values(const Graph& graph);

class Rewriter {
 public:
  explicit Rewriter(Graph& graph);
  // `consider` may add nodes, which come before the one it is given, and give what takes the place of that one's first
  // result; null leaves it. True where something was added or replaced.
  bool run(const std::function<Value*(Node&)>& consider);

  // A node with one result, of the place in the program that `like` has.
  Value* add(const Node& like, const char* op, const char* overload, std::vector<Arg> args, Type type);
  // By nodes and as results of the graph, before this rewriting.
  size_t uses(const Value* value) const;
  // The maker of an operand where it has no other reader; null otherwise. `name` as of op_is().
  Node* sole_maker(const Arg& arg, std::string_view name) const;

 private:
  Value* resolved(Value* value) const;

  Graph& graph_;
  std::unordered_map<const Value*, size_t> uses_;
  std::unordered_map<const Value*, Value*> replaced_;
  bool changed_ = false;
};

// Whether the node calls the operator `name` ("aten::relu"), whatever its overload.
bool op_is(const Node& node, std::string_view name);
// A dense float32 tensor on the CPU of so many dimensions, whose sizes are numbers and not 0.
bool is_float_tensor(const Arg& arg, size_t rank);
Type tensor_like(const Type& type, std::vector<Dim> sizes);  // contiguous

// ---- the passes, in the order they run

bool fold_norms(Graph& graph);          // batch norms of convolutions into their weights
bool pack_layers(Graph& graph);         // weights of products and convolutions
bool join_epilogues(Graph& graph);      // activations and sums into the packed calls before them
bool keep_channels_last(Graph& graph);  // between packed convolutions

}  // namespace firesteel
