// The choice the partitioner makes: which nodes the backward graph holds. What must be saved follows from it.
#pragma once

#include "partition/joint_facts.h"

namespace firesteel {

// For each node of the joint graph: true where the backward may compute it. Late nodes always, early ones by choice;
// a node chosen but not needed is left out all the same.
using Choice = std::vector<char>;

// What the backward holds and reads under a choice.
struct Demand {
  std::vector<char> nodes;     // for each node: the backward computes it
  std::vector<int32_t> saved;  // early values it reads and does not compute, ascending: inputs come first
};
Demand demand_of(const JointFacts& facts, const Choice& choice);

Choice choose_direct(const JointFacts& facts);   // Recompute::None
Choice choose_cheap(const JointFacts& facts);    // Recompute::Cheap
Choice choose_min_cut(const JointFacts& facts);  // Recompute::MinCut

}  // namespace firesteel
