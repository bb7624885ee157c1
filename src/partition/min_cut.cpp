// Chooses by a minimum cut (Boost.Graph): the forward side of the cut is computed once, the backward side again.
//
// Vertices: the source, the sink, each early node and each early value that the backward might want.
//   source → node     price of computing it again; no limit where that is not allowed
//   node   → value    price of saving it; no limit where it cannot be saved
//   source → value    price of saving a mutated input
//   value  → node     no limit: a node computed again needs all of its inputs
//   value  → sink     no limit: a late node reads it, or it is a gradient
//   node   → node     no limit, from a node to what makes its inputs, where neither is required by the forward: what
//                     runs only for the backward's sake runs on one side only
// Inputs that cost nothing do not appear.
#include "partition/choice.h"

// A false alarm inside Boost, seen from GCC 12 at -O2.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>

#include "base/error.h"
#include "partition/price.h"

namespace firesteel {
namespace {

constexpr int64_t kNoLimit = int64_t{1} << 58;

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
struct Edge {
  int64_t capacity = 0, residual = 0;
  Traits::edge_descriptor reverse;
};
struct Vertex {
  Traits::edge_descriptor predecessor;
  boost::default_color_type color = boost::white_color;
  int64_t distance = 0;
};
using Network = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, Vertex, Edge>;

class MinCut {
 public:
  explicit MinCut(const JointFacts& facts)
      : facts_(facts),
        prices_(facts),
        node_vertex_(facts.nodes.size(), -1),
        value_vertex_(facts.values.size(), -1),
        most_finite_(kNoLimit / static_cast<int64_t>(facts.values.size() + facts.nodes.size() + 1)) {}

  Choice solve();

 private:
  static constexpr int32_t kSource = 0, kSink = 1, kFirstFree = 2;
  struct Link {
    int32_t from, to;
    int64_t capacity;
  };

  void want(int32_t value);
  void link_wanted();
  void link_node(int32_t node);
  void link(int32_t from, int32_t to, int64_t capacity) { links_.push_back({from, to, capacity}); }
  int64_t finite(int64_t price) const { return std::min(price, most_finite_); }
  std::vector<char> sink_side() const;

  const JointFacts& facts_;
  Prices prices_;
  std::vector<int32_t> node_vertex_, value_vertex_;  // -1: not in the network
  std::vector<int32_t> wanted_;                      // values whose maker is still to be linked
  std::vector<Link> links_;
  int64_t most_finite_;  // all prices together stay below kNoLimit
  int32_t vertices_ = kFirstFree;
};

void MinCut::want(int32_t v) {
  const ValueFacts& value = facts_.values[v];
  if (value.late || value.free || value_vertex_[v] >= 0) return;
  value_vertex_[v] = vertices_++;
  wanted_.push_back(v);
}

void MinCut::link_node(int32_t n) {
  const NodeFacts& node = facts_.nodes[n];
  node_vertex_[n] = vertices_++;
  if (!prices_.may_recompute(n)) return link(kSource, node_vertex_[n], kNoLimit);
  if (const int64_t price = node.moved ? 0 : prices_.recompute(n)) link(kSource, node_vertex_[n], finite(price));
  for (int32_t input : facts_.inputs(node)) {
    want(input);
    if (value_vertex_[input] >= 0) link(value_vertex_[input], node_vertex_[n], kNoLimit);
  }
}

void MinCut::link_wanted() {
  while (!wanted_.empty()) {
    const int32_t v = wanted_.back();
    wanted_.pop_back();
    const ValueFacts& value = facts_.values[v];
    const int64_t price = value.savable ? finite(prices_.save(v)) : kNoLimit;
    if (value.def >= 0 && node_vertex_[value.def] < 0) link_node(value.def);
    link(value.def < 0 ? kSource : node_vertex_[value.def], value_vertex_[v], price);
  }
  for (size_t n = 0; n < facts_.nodes.size(); ++n) {
    const NodeFacts& node = facts_.nodes[n];
    if (node_vertex_[n] < 0 || node.required || node.moved) continue;
    for (int32_t input : facts_.inputs(node)) {
      const int32_t def = facts_.values[input].def;
      if (def < 0 || node_vertex_[def] < 0 || facts_.nodes[def].required || facts_.nodes[def].moved) continue;
      link(node_vertex_[n], node_vertex_[def], kNoLimit);
    }
  }
}

// The vertices from which the sink can still be reached once the flow is at its greatest. Of all minimum cuts this is
// the one nearest the sink: among equal prices, the one that computes least again.
std::vector<char> MinCut::sink_side() const {
  Network network(vertices_);
  for (const Link& each : links_) {
    auto there = boost::add_edge(each.from, each.to, {each.capacity, 0, {}}, network).first;
    auto back = boost::add_edge(each.to, each.from, {0, 0, {}}, network).first;
    network[there].reverse = back;
    network[back].reverse = there;
  }
  const int64_t flow = boost::boykov_kolmogorov_max_flow(
      network, boost::get(&Edge::capacity, network), boost::get(&Edge::residual, network),
      boost::get(&Edge::reverse, network), boost::get(&Vertex::predecessor, network),
      boost::get(&Vertex::color, network), boost::get(&Vertex::distance, network),
      boost::get(boost::vertex_index, network), kSource, kSink);
  FS_CHECK(flow < kNoLimit, "the backward needs a value that can neither be saved nor computed again");

  std::vector<char> reaches(vertices_, 0);
  std::vector<int32_t> open = {kSink};
  reaches[kSink] = true;
  while (!open.empty()) {
    const int32_t vertex = open.back();
    open.pop_back();
    for (auto [edge, end] = boost::out_edges(vertex, network); edge != end; ++edge) {
      const auto from = static_cast<int32_t>(boost::target(*edge, network));
      if (reaches[from] || network[network[*edge].reverse].residual == 0) continue;
      reaches[from] = true;
      open.push_back(from);
    }
  }
  return reaches;
}

Choice MinCut::solve() {
  std::vector<char> read_late(facts_.values.size(), 0);
  const Graph& graph = facts_.joint.graph;
  for (size_t i = facts_.joint.forward_outputs; i < graph.outputs.size(); ++i)
    graph.outputs[i].each_value([&](const Value* value) { read_late[facts_.id(value)] = true; });

  Choice choice(facts_.nodes.size(), 0);
  for (size_t n = 0; n < facts_.nodes.size(); ++n) choice[n] = facts_.nodes[n].late || facts_.nodes[n].moved;
  const Demand demand = demand_of(facts_, choice);
  for (size_t n = 0; n < facts_.nodes.size(); ++n)
    if (demand.nodes[n] && facts_.nodes[n].late)
      for (int32_t input : facts_.inputs(facts_.nodes[n])) read_late[input] = true;
  for (size_t v = 0; v < facts_.values.size(); ++v) {
    if (!read_late[v]) continue;
    want(static_cast<int32_t>(v));
    if (value_vertex_[v] >= 0) link(value_vertex_[v], kSink, kNoLimit);
  }
  if (links_.empty()) return choice;
  link_wanted();

  const std::vector<char> recomputed = sink_side();
  for (size_t n = 0; n < facts_.nodes.size(); ++n)
    if (node_vertex_[n] >= 0 && recomputed[node_vertex_[n]]) choice[n] = true;
  return choice;
}

}  // namespace

Choice choose_min_cut(const JointFacts& facts) { return MinCut(facts).solve(); }

}  // namespace firesteel
