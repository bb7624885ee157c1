// The nested shape of inputs and outputs: lists, tuples, dicts and registered classes around flat leaves.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "firesteel/export.h"

namespace firesteel {

enum class TreeKind : uint8_t { Leaf, Constant, List, Tuple, Dict, Custom };

// Leaves are tensors, counted in order from left to right; anything else that stands in a leaf's place (a number, a
// string, None) is a Constant and part of the structure. `text` is a Constant's spelling or a Custom node's class
// (a namedtuple, an OrderedDict, a registered class). The context belongs to the language layer that made the tree.
struct FIRESTEEL_API Tree {
  TreeKind kind = TreeKind::Leaf;
  std::vector<Tree> children;
  std::vector<std::string> keys;  // Dict: one a child, in order
  std::string text;               // Constant, Custom
  std::shared_ptr<void> context;  // Constant, Custom, and Dicts whose keys are not all strings

  static Tree leaf() { return {}; }
  static Tree constant(std::string text, std::shared_ptr<void> context = nullptr);
  static Tree sequence(TreeKind kind, std::vector<Tree> children);
  static Tree tuple_of_leaves(size_t count);

  size_t leaf_count() const;
  // `(_, [_, 3], {"a": _}, Point(_, _))`
  std::string str() const;
  // Structure only: contexts are compared by the layer that made them.
  FIRESTEEL_API friend bool operator==(const Tree& a, const Tree& b);
  friend bool operator!=(const Tree& a, const Tree& b) { return !(a == b); }
};

}  // namespace firesteel
