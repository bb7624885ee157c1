// Builds the forward and the backward graph from a joint graph and a choice.
#pragma once

#include "partition/choice.h"

namespace firesteel {

Partitioned split(const JointFacts& facts, const Choice& choice);

}  // namespace firesteel
