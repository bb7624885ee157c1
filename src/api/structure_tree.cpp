// Decodes structures. The format is FlatTag's, in firesteel/flat.h.
#include "api/structure_tree.h"

#include "base/error.h"
#include "firesteel/flat.h"

namespace firesteel {
namespace {

class Decoder {
 public:
  explicit Decoder(std::string_view structure) : reader_(no_tensors(), structure) {}

  bool done() const { return reader_.at_end(); }

  Tree next() {
    const FlatTag tag = reader_.peek();
    reader_.expect(tag);
    switch (tag) {
      case FlatTag::Tensor:
        return Tree::leaf();
      case FlatTag::Undefined:
      case FlatTag::None:
        return Tree::constant("None");
      case FlatTag::Some:
        return next();
      case FlatTag::Int:
        return Tree::constant(fmt::format("{}", reader_.integer()));
      case FlatTag::Double:
        return Tree::constant(fmt::format("{:#}", reader_.real()));
      case FlatTag::Bool:
        return Tree::constant(reader_.integer() ? "True" : "False");
      case FlatTag::Text:
        return Tree::constant(fmt::format("\"{}\"", reader_.text()));
      case FlatTag::List:
        return Tree::sequence(TreeKind::List, items());
      case FlatTag::Tuple:
        return Tree::sequence(TreeKind::Tuple, items());
      case FlatTag::Dict:
        return dict();
      case FlatTag::Struct:
        return custom();
    }
    FS_CHECK(false, "a structure has the unknown tag '{}'", static_cast<char>(tag));
    return {};
  }

 private:
  static const std::vector<at::Tensor>& no_tensors() {
    static const std::vector<at::Tensor> none;
    return none;
  }

  std::vector<Tree> items() {
    std::vector<Tree> trees;
    for (int64_t left = reader_.integer(); left > 0; --left) trees.push_back(next());
    return trees;
  }

  Tree dict() {
    Tree tree;
    tree.kind = TreeKind::Dict;
    for (int64_t left = reader_.integer(); left > 0; --left) {
      tree.keys.push_back(reader_.text());
      tree.children.push_back(next());
    }
    return tree;
  }

  Tree custom() {
    Tree tree;
    tree.kind = TreeKind::Custom;
    tree.text = reader_.text();
    tree.children = items();
    return tree;
  }

  FlatReader reader_;
};

}  // namespace

Tree argument_tree(std::string_view structure) {
  Decoder decoder(structure);
  std::vector<Tree> trees;
  while (!decoder.done()) trees.push_back(decoder.next());
  return Tree::sequence(TreeKind::Tuple, std::move(trees));
}

Tree result_tree(std::string_view structure) {
  Tree values = argument_tree(structure);
  return values.children.size() == 1 ? std::move(values.children.front()) : values;
}

}  // namespace firesteel
