// Trees: building, counting, comparing. Their text is in tree_text.cpp.
#include "graph/tree.h"

#include "base/error.h"

namespace firesteel {

Tree Tree::constant(std::string text, std::shared_ptr<void> context) {
  Tree tree;
  tree.kind = TreeKind::Constant;
  tree.text = std::move(text);
  tree.context = std::move(context);
  return tree;
}

Tree Tree::sequence(TreeKind kind, std::vector<Tree> children) {
  FS_CHECK(kind == TreeKind::List || kind == TreeKind::Tuple, "a sequence is a list or a tuple");
  Tree tree;
  tree.kind = kind;
  tree.children = std::move(children);
  return tree;
}

Tree Tree::tuple_of_leaves(size_t count) { return sequence(TreeKind::Tuple, std::vector<Tree>(count)); }

size_t Tree::leaf_count() const {
  if (kind == TreeKind::Leaf) return 1;
  size_t count = 0;
  for (const Tree& child : children) count += child.leaf_count();
  return count;
}

bool operator==(const Tree& a, const Tree& b) {
  return a.kind == b.kind && a.text == b.text && a.keys == b.keys && a.children == b.children;
}

}  // namespace firesteel
