// Values of the symbols that meet the facts. Where two of them answer a question differently it is open for certain,
// and no solver need be asked.
#pragma once

#include <vector>

#include "shapes/facts.h"

namespace firesteel {

// As many as a few tries find, perhaps none; the same for the same facts.
std::vector<Witness> find_witnesses(const FactBase& facts);
bool is_open(const Relation& relation, const std::vector<Witness>& witnesses);

}  // namespace firesteel
