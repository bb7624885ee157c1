// Guards that other guards imply are not worth checking.
#pragma once

#include <vector>

#include "shapes/facts.h"

namespace firesteel {

// Relations that together say the same as these do, for values that meet `initial`: those which the rest imply are
// gone, of the others the order stays. What is too much to look at is kept. Expressions without a value (a division by
// zero) are no reason to keep a relation: that they have one is for the others to say.
FIRESTEEL_API std::vector<Relation> without_redundant(const std::vector<Relation>& relations, const Facts& initial);

}  // namespace firesteel
