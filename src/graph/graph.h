// The IR, one for both levels: calls a user can name (`torch.nn.functional.gelu`) and ATen operators.
//
// Goals: cheap to record (a node is two allocations), easy to read as text, hard to misuse.
// Rules:
//  - A Graph owns its nodes in execution order; a Node owns its output Values; pointers stay valid until erased.
//  - Every Value is defined once: by a node, or as an input of the graph.
//  - An ATen node holds one Arg for each schema argument, in schema order, defaults filled in.
//  - A functional graph writes to nothing but copies it made itself (custom operators that write); writes to inputs are
//    `mutations`, applied after the nodes have run.
//  - Outputs are Args, flat, with `output_tree` giving their nesting; constants may stand among them.
//  - `verify()` checks all of this; it runs after every pass in tests and debug builds.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include "graph/tree.h"
#include "graph/type.h"

namespace firesteel {

class Graph;
struct Node;

// Where in the user's program something came from. File and function are shared by many nodes.
struct SourceFile {
  std::string path;
};
struct FIRESTEEL_API SourceLocation {
  std::shared_ptr<const SourceFile> file;  // null: unknown
  std::string function;
  int line = 0;
  explicit operator bool() const { return file != nullptr; }
  std::string str() const;  // "model.py:12 forward", or "" where unknown
};
using SourceRef = std::shared_ptr<const SourceLocation>;  // null: unknown

// A value: made by `def` as its output number `index`, or an input of the graph where def is null.
struct Value {
  Node* def = nullptr;
  uint32_t index = 0;
  Type type;
  std::string name;  // a wish, without '%'; the printer makes names unique and invents missing ones
};

// What stands in an argument place: nothing, a value, a constant, a size that symbols give, or a nest of these.
struct FIRESTEEL_API Arg {
  enum class Kind : uint8_t { None, Value, Const, List, Tuple, Dict, Dim };
  Kind kind = Kind::None;
  Value* value = nullptr;         // Value
  c10::IValue constant;           // Const: bool, int, double, complex, string, device, int list, …; never a tensor
  std::vector<Arg> items;         // List, Tuple, Dict
  std::vector<std::string> keys;  // Dict
  firesteel::Dim dim;             // Dim: never a number, which is a constant

  Arg() = default;
  Arg(Value* v) : kind(Kind::Value), value(v) {}  // NOLINT
  static Arg of_const(c10::IValue constant);      // an IValue None gives Kind::None
  static Arg of_dim(firesteel::Dim dim);          // a number gives a constant
  static Arg list(std::vector<Arg> items);

  bool has_dim() const;  // a symbol takes part

  // Calls `visit(Value*&)` for every value inside, in order.
  template <class F>
  void each_value(F&& visit) {
    if (kind == Kind::Value) visit(value);
    for (Arg& item : items) item.each_value(visit);
  }
  template <class F>
  void each_value(F&& visit) const {
    if (kind == Kind::Value) visit(static_cast<const Value*>(value));
    for (const Arg& item : items) item.each_value(visit);
  }
};

// What a node calls. An ATen operator is its handle; anything else is a name with a callee known to its layer.
struct FIRESTEEL_API Op {
  std::optional<c10::OperatorHandle> aten;
  std::string name;              // torch-level: "torch.nn.functional.gelu"; empty for ATen
  std::shared_ptr<void> callee;  // torch-level: what the language layer calls

  bool is_aten() const { return aten.has_value(); }
  // `aten.mm`, `aten.add.Tensor`, `mylib.scale`: the overload only where it has a name.
  std::string str() const;
  FIRESTEEL_API friend bool operator==(const Op& a, const Op& b);
};

// A node's results: each return of the schema is one value, or a list of `count` values.
struct Return {
  int32_t list_count = -1;  // -1: a single value
};

enum class Phase : uint8_t { Forward, Backward };

struct FIRESTEEL_API Node {
  Op op;
  std::vector<Arg> args;
  std::vector<std::string> kwarg_names;  // torch-level: names of the last args
  std::vector<Return> returns;
  std::vector<std::unique_ptr<Value>> outputs;  // all returns, flat
  SourceRef source;
  Phase phase = Phase::Forward;

  Value* add_output(Type type);
  bool has_dim() const;  // an argument that symbols give
  template <class F>
  void each_input(F&& visit) {
    for (Arg& arg : args) arg.each_value(visit);
  }
  template <class F>
  void each_input(F&& visit) const {
    for (const Arg& arg : args) arg.each_value(visit);
  }
};

// What an input is: an argument of the call, a tensor the function reached by itself (its object is the constant:
// changes made in place are seen), a gradient coming in, or a value the forward graph saved for the backward one.
#define FIRESTEEL_INPUT_ROLES(X) \
  X(Argument, "argument")        \
  X(Captured, "captured")        \
  X(Tangent, "tangent")          \
  X(Saved, "saved")

enum class InputRole : uint8_t {
#define X(name, text) name,
  FIRESTEEL_INPUT_ROLES(X)
#undef X
};

FIRESTEEL_API const char* role_text(InputRole role);

struct Input {
  std::unique_ptr<Value> value;
  InputRole role = InputRole::Argument;
  at::Tensor captured;  // Captured: the tensor itself (undefined when read back from text)
};

// After the nodes: `input` receives `updated`, as `input.copy_(updated)` would do it.
struct Mutation {
  Value* input = nullptr;
  Value* updated = nullptr;
  bool under_no_grad = false;  // all writes happened where autograd was off
  bool metadata_only = false;  // only sizes and strides changed (`x.t_()`): `updated` is a view of the input
};

// How an output's memory relates to the inputs, as eager would have it.
struct OutputAlias {
  enum class Kind : uint8_t { Fresh, IsInput, ViewOfInput, ViewOfOutput };
  Kind kind = Kind::Fresh;
  int32_t of = -1;  // index of the input or output
};

class FIRESTEEL_API Graph {
 public:
  std::string name = "graph";
  std::vector<Input> inputs;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<Arg> outputs;
  std::vector<OutputAlias> output_aliases;  // empty, or one an output
  std::vector<Mutation> mutations;
  Tree input_tree;   // over the inputs of role Argument; a Leaf tree means "flat, as listed"
  Tree output_tree;  // over `outputs`; a Leaf tree means "flat, as listed"

  Graph() = default;
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;

  Value* add_input(Type type, InputRole role, std::string name = {});
  Node* add_node(Op op);
  Node* add_aten(const c10::OperatorHandle& op, std::vector<Arg> args);

  // A deep copy; nothing is shared but captured tensors, callees and source locations.
  Graph clone() const;
  // Replaces every use of `from` by `to`, in nodes, outputs and mutations.
  void replace_uses(const Value* from, Value* to);
  // Drops the nodes for which `dead(node)` holds; their outputs must have no uses left.
  void erase_nodes(const std::function<bool(const Node&)>& dead);

  std::string str() const;  // see print.cpp for the form
};

// Reads what Graph::str() wrote. Throws GraphFormatError with line and column.
FIRESTEEL_API Graph parse_graph(std::string_view text);

// Throws InternalError naming the first rule that does not hold.
FIRESTEEL_API void verify(const Graph& graph);

// Whether the operator came with torch or with us: it is there for good, and as it is. Those of others may be taken
// back and defined anew.
FIRESTEEL_API bool is_of_torch(const c10::OperatorHandle& op);

// Facts of an operator that several passes ask for.
struct OpFacts {
  bool is_view = false;     // some output shares memory with an input (schema alias, no write)
  bool is_mutable = false;  // writes to an argument
  bool is_random = false;   // draws from a generator
  bool is_pure = false;     // no writes, no randomness, no side effect: may be dropped, merged, run again
};
FIRESTEEL_API OpFacts op_facts(const c10::OperatorHandle& op);

}  // namespace firesteel
