// The partitioner as a whole: facts of the joint graph, a choice, two graphs.
#include "partition/partition.h"

#include "partition/split.h"

namespace firesteel {
namespace {

Choice choose(const JointFacts& facts, PartitionOptions::Recompute recompute) {
  switch (recompute) {
    case PartitionOptions::Recompute::None:
      return choose_direct(facts);
    case PartitionOptions::Recompute::Cheap:
      return choose_cheap(facts);
    case PartitionOptions::Recompute::MinCut:
      break;
  }
  return choose_min_cut(facts);
}

}  // namespace

Partitioned partition(const Joint& joint, const PartitionOptions& options) {
  const JointFacts facts(joint);
  return split(facts, choose(facts, options.recompute));
}

}  // namespace firesteel
