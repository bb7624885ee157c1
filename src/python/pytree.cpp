// Flattening, rebuilding and matching of nested Python values.
#include "python/pytree.h"

#include <cctype>

#include <fmt/format.h>

#include "python/constants.h"
#include "python/errors.h"
#include "python/pytree_nodes.h"
#include "python/tensor_objects.h"
#include "python/user_frames.h"

namespace firesteel::python {
namespace {

// Where we are, as a chain on the stack: spelled out only for an error.
struct Path {
  const char* root = nullptr;
  const Path* parent = nullptr;
  const NodeKind* kind = nullptr;
  PyObject* object = nullptr;
  PyObject* context = nullptr;
  size_t index = 0;

  std::string str() const { return parent ? parent->str() + kind->step(object, context, index) : root; }
};

// A list that holds itself would never end.
class RecursionGuard {
 public:
  RecursionGuard() { check(Py_EnterRecursiveCall(" while taking a nested value apart") == 0); }
  ~RecursionGuard() { Py_LeaveRecursiveCall(); }
  RecursionGuard(const RecursionGuard&) = delete;
  RecursionGuard& operator=(const RecursionGuard&) = delete;
};

const char* type_name(PyObject* object) { return Py_TYPE(object)->tp_name; }

thread_local bool t_takes_all_tensors = false;

// `a`/`an` and a class's own name, without its module.
std::string with_article(std::string_view name) {
  name.remove_prefix(name.rfind('.') == std::string_view::npos ? 0 : name.rfind('.') + 1);
  const bool vowel = !name.empty() && std::string_view("aeiouAEIOU").find(name[0]) != std::string_view::npos;
  return fmt::format("{} {}", vowel ? "an" : "a", name);
}

std::string describe(PyObject* object) {
  if (is_exact_tensor(object)) return "a tensor";
  if (is_tensor(object)) return fmt::format("{}, a tensor subclass", with_article(type_name(object)));
  if (const NodeKind* kind = kind_of(object)) {
    const bool counted = kind->tree == TreeKind::List || kind->tree == TreeKind::Tuple || kind->tree == TreeKind::Dict;
    if (counted) return fmt::format("a {} of {}", kind->name, PyObject_Size(object));
  } else if (is_plain_constant(object)) {
    return object == Py_None ? "None" : fmt::format("{} ({})", spell(object), type_name(object));
  }
  return with_article(type_name(object));
}

std::string describe(const Tree& tree) {
  switch (tree.kind) {
    case TreeKind::Leaf:
      return "a tensor";
    case TreeKind::List:
      return fmt::format("a list of {}", tree.children.size());
    case TreeKind::Tuple:
      return fmt::format("a tuple of {}", tree.children.size());
    case TreeKind::Dict:
      return fmt::format("a dict of {}", tree.children.size());
    case TreeKind::Custom:
      return with_article(tree.text);
    case TreeKind::Constant:
      break;
  }
  return tree.context ? describe(static_cast<PyRef*>(tree.context.get())->get()) : tree.text;
}

constexpr const char* kHowToRegister =
    "register the class with torch.utils._pytree: register_pytree_node, register_dataclass, or register_constant";

class Flattener {
 public:
  // `returned_by` is null for inputs.
  Flattener(PyObject* returned_by, Flat& flat) : returned_by_(returned_by), flat_(flat) {}

  Tree visit(PyObject* object, const Path& path) {
    if (is_tensor(object)) return tensor(object, path);
    if (const NodeKind* kind = kind_of(object)) return container(object, kind, path);
    const bool constant = returned_by_ ? is_plain_constant(object) : is_constant(object);
    if (!constant) refuse(object, path);
    return Tree::constant(spell(object), share_across_threads(PyRef::borrow(object)));
  }

 private:
  Tree tensor(PyObject* object, const Path& path) {
    if (!is_exact_tensor(object) && !t_takes_all_tensors) {
      if (const char* method = overriding_method(Py_TYPE(object))) {
        fail(
            fmt::format("{} is a {}, a tensor subclass with its own {}: it cannot be traced\n"
                        "  try: pass the plain tensors inside it",
                        path.str(), type_name(object), method));
      }
    }
    flat_.leaves.push_back(PyRef::borrow(object));
    return Tree::leaf();
  }

  Tree container(PyObject* object, const NodeKind* kind, const Path& path) {
    RecursionGuard guard;
    Parts parts;
    std::string problem;
    if (!kind->take_apart(object, parts, problem)) fail(fmt::format("{}: {}", path.str(), problem));
    Tree tree;
    tree.kind = kind->tree;
    if (tree.kind == TreeKind::Custom) tree.text = own_name(object);
    if (tree.kind == TreeKind::Dict) {
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts.context.get()); ++i) {
        PyObject* key = PyTuple_GET_ITEM(parts.context.get(), i);
        tree.keys.push_back(PyUnicode_CheckExact(key) ? std::string(text_of(key)) : spell(key));
      }
    }
    for (size_t i = 0; i < parts.children.size(); ++i) {
      const Path below{nullptr, &path, kind, object, parts.context.get(), i};
      tree.children.push_back(visit(parts.children[i].get(), below));
    }
    tree.context = share_across_threads(
        NodeContext{kind, PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(object))), std::move(parts.context)});
    return tree;
  }

  static std::string own_name(PyObject* object) {
    PyRef name = attribute(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__name__");
    return name ? std::string(text_of(name.get())) : type_name(object);
  }

  [[noreturn]] void refuse(PyObject* object, const Path& path) const {
    if (!returned_by_) {
      fail(fmt::format(
          "{} is {}, which cannot be an input of a traced function\n  try: pass the tensors it holds, or {}",
          path.str(), with_article(type_name(object)), kHowToRegister));
    }
    fail(
        fmt::format("the traced function returns {} as {}, where only tensors, numbers, text, None and containers of "
                    "them can stand\n  try: return the tensors it holds, or {}",
                    with_article(type_name(object)), path.str(), kHowToRegister));
  }

  [[noreturn]] void fail(const std::string& message) const {
    if (!returned_by_) FS_RAISE(TraceError, "{}", message);
    const std::optional<UserLine> line = return_line(returned_by_);
    raise_as_is("OutputTypeError", insert_place(message, line ? show(*line) : show_user_line()));
  }

  PyObject* returned_by_;
  Flat& flat_;
};

class Matcher {
 public:
  explicit Matcher(std::vector<PyRef>& leaves) : leaves_(leaves) {}

  void visit(const Tree& traced, PyObject* object, const Path& path, bool any_order) {
    if (traced.kind == TreeKind::Leaf) {
      if (!is_tensor(object) || (!is_exact_tensor(object) && overriding_method(Py_TYPE(object)))) {
        differ(traced, object, path);
      }
      leaves_.push_back(PyRef::borrow(object));
    } else if (traced.kind == TreeKind::Constant) {
      // One without a value stands for any number.
      const bool same = traced.context ? same_constant(static_cast<PyRef*>(traced.context.get())->get(), object)
                                       : PyLong_Check(object) || PyFloat_Check(object);
      if (is_tensor(object) || !same) differ(traced, object, path);
    } else {
      container(traced, object, path, any_order);
    }
  }

 private:
  void container(const Tree& traced, PyObject* object, const Path& path, bool any_order) {
    RecursionGuard guard;
    const auto& expected = *static_cast<NodeContext*>(traced.context.get());
    const NodeKind* kind = is_tensor(object) ? nullptr : kind_of(object);
    if (kind != expected.kind || reinterpret_cast<PyObject*>(Py_TYPE(object)) != expected.type.get()) {
      differ(traced, object, path);
    }
    Parts parts;
    std::string problem;
    if (!kind->take_apart(object, parts, problem)) FS_RAISE(InputMismatchError, "{}: {}", path.str(), problem);
    if (any_order) sort_like(expected.context.get(), object, parts);
    check_context(traced, expected, parts, object, path);
    if (parts.children.size() != traced.children.size()) differ(traced, object, path);
    for (size_t i = 0; i < parts.children.size(); ++i) {
      const Path below{nullptr, &path, kind, object, parts.context.get(), i};
      visit(traced.children[i], parts.children[i].get(), below, false);
    }
  }

  // Brings the entries of a dict into the order of these keys, where it has just these.
  static void sort_like(PyObject* keys, PyObject* dict, Parts& parts) {
    const Py_ssize_t count = PyTuple_GET_SIZE(keys);
    if (count != PyDict_GET_SIZE(dict)) return;
    std::vector<PyRef> sorted;
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyObject* value = PyDict_GetItemWithError(dict, PyTuple_GET_ITEM(keys, i));
      check(value || !PyErr_Occurred());
      if (!value) return;
      sorted.push_back(PyRef::borrow(value));
    }
    parts.children = std::move(sorted);
    parts.context = PyRef::borrow(keys);
  }

  static void check_context(const Tree& traced, const NodeContext& expected, const Parts& parts, PyObject* object,
                            const Path& path) {
    PyObject *before = expected.context.get(), *now = parts.context.get();
    if (before == now) return;
    int same = before && now ? PyObject_RichCompareBool(before, now, Py_EQ) : 0;
    check(same >= 0);
    if (same) return;
    if (traced.kind == TreeKind::Dict) {
      FS_RAISE(InputMismatchError, "{} was traced with the keys {}, and is called with {}", path.str(), spell(before),
               spell(now));
    }
    FS_RAISE(InputMismatchError, "{}: {} was traced with {}, and is called with {}", path.str(), describe(object),
             before ? spell(before) : "nothing", now ? spell(now) : "nothing");
  }

  [[noreturn]] static void differ(const Tree& traced, PyObject* object, const Path& path) {
    const bool arguments = !path.parent && traced.kind == TreeKind::Tuple;
    FS_REQUIRE(!arguments, InputMismatchError,
               "the function was traced with {} positional arguments, and is called with {}", traced.children.size(),
               PyTuple_Size(object));
    FS_RAISE(InputMismatchError, "{} was traced as {}, and is called with {}", path.str(), describe(traced),
             describe(object));
  }

  std::vector<PyRef>& leaves_;
};

}  // namespace

TakesAllTensors::TakesAllTensors() : outer_(std::exchange(t_takes_all_tensors, true)) {}
TakesAllTensors::~TakesAllTensors() { t_takes_all_tensors = outer_; }

Flat flatten_input(PyObject* object, const char* root) {
  Flat flat;
  flat.tree = Flattener(nullptr, flat).visit(object, Path{root});
  return flat;
}

Flat flatten_result(PyObject* object, PyObject* function) {
  Flat flat;
  flat.tree = Flattener(function, flat).visit(object, Path{"result"});
  return flat;
}

void flatten_like(const Tree& traced, PyObject* object, const char* root, bool any_order, std::vector<PyRef>& leaves) {
  Matcher(leaves).visit(traced, object, Path{root}, any_order);
}

PyRef unflatten(const Tree& tree, const std::vector<PyRef>& leaves, size_t& next) {
  if (tree.kind == TreeKind::Leaf) return leaves.at(next++);
  FS_CHECK(tree.context, "a tree that did not come from Python cannot be built in Python");
  if (tree.kind == TreeKind::Constant) return fresh_constant(static_cast<PyRef*>(tree.context.get())->get());
  const auto& node = *static_cast<NodeContext*>(tree.context.get());
  PyRef children = checked(PyTuple_New(static_cast<Py_ssize_t>(tree.children.size())));
  for (size_t i = 0; i < tree.children.size(); ++i) {
    PyTuple_SET_ITEM(children.get(), static_cast<Py_ssize_t>(i), unflatten(tree.children[i], leaves, next).release());
  }
  return node.kind->build(node.type.get(), node.context.get(), children);
}

PyRef map_parts(PyObject* object, const std::function<PyRef(PyObject*)>& map) {
  const NodeKind* kind = is_tensor(object) ? nullptr : kind_of(object);
  if (!kind) return map(object);
  RecursionGuard guard;
  Parts parts;
  std::string problem;
  FS_REQUIRE(kind->take_apart(object, parts, problem), TraceError, "{}", problem);
  bool changed = false;
  PyRef children = checked(PyTuple_New(static_cast<Py_ssize_t>(parts.children.size())));
  for (size_t i = 0; i < parts.children.size(); ++i) {
    PyRef child = map_parts(parts.children[i].get(), map);
    changed = changed || child.get() != parts.children[i].get();
    PyTuple_SET_ITEM(children.get(), static_cast<Py_ssize_t>(i), child.release());
  }
  if (!changed) return PyRef::borrow(object);
  return kind->build(reinterpret_cast<PyObject*>(Py_TYPE(object)), parts.context.get(), children);
}

void name_leaves(const Tree& tree, const std::string& prefix, std::vector<std::string>& names) {
  if (tree.kind == TreeKind::Leaf) {
    std::string name;
    for (const char c : prefix) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    names.push_back(std::move(name));
  }
  for (size_t i = 0; i < tree.children.size(); ++i) {
    const std::string step = i < tree.keys.size() ? tree.keys[i] : std::to_string(i);
    name_leaves(tree.children[i], prefix.empty() ? step : prefix + "_" + step, names);
  }
}

}  // namespace firesteel::python
