// Operators that read a table at places that indices name: embedding, index_select, gather, index.
#pragma once

#include <functional>

#include "fuse/index_check.h"
#include "fuse/node_rules.h"

namespace firesteel {

struct Lookup {
  // A dimension of the table in which indices say where.
  struct Place {
    const Value* indices;
    size_t dim;             // of the table
    size_t first;           // of the result: the dimension that the indices begin at
    bool from_end = false;  // negative ones count from the end
  };
  const Value* table = nullptr;
  std::vector<Dim> sizes;                    // of the result
  std::vector<std::optional<size_t>> along;  // by dimension of the table: that of the result which it lies along
  std::vector<Place> places;
};

// None where the node is no lookup, or not one of plain tensors.
std::optional<Lookup> lookup_of(const Node& node);
std::optional<NodeSpace> lookup_space(const Node& node);
std::optional<ExprId> lower_lookup(const Node& node, LoopKernel& kernel, Operands& operands);

// `buffer_of`: the kernel's input that holds a value.
IndexCheck check_of(const Node& node, const Lookup& lookup, const std::function<int32_t(const Value*)>& buffer_of);

}  // namespace firesteel
