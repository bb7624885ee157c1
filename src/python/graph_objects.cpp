// Graph, Node and Value as Python sees them: read-only views that keep their graph alive.
#include "python/graph_objects.h"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/errors.h"
#include "python/tensor_objects.h"
#include "runtime/graph_run.h"

namespace nb = nanobind;

namespace firesteel::python {
namespace {

using Owner = std::shared_ptr<const NamedGraph>;

nb::object hand_over(PyRef object) { return nb::steal(object.release()); }

// A value of a graph: an input or an output of a node.
struct ValueObject {
  Owner owner;
  const Value* value;
  const char* role = nullptr;  // inputs only

  const Type& type() const { return value->type; }
  std::string name() const { return owner->names(value).substr(1); }  // without '%'
  std::string str() const { return fmt::format("{}: {}", owner->names(value), type().str()); }
};

struct NodeObject {
  Owner owner;
  const Node* node;

  std::vector<ValueObject> outputs() const {
    std::vector<ValueObject> values;
    for (const auto& output : node->outputs) values.push_back({owner, output.get()});
    return values;
  }
  // The properties `shape`, `dtype`, … are those of the first output, which most nodes have alone.
  ValueObject first() const {
    if (node->outputs.empty()) throw nb::attribute_error("this node has no outputs");
    return {owner, node->outputs.front().get()};
  }
  std::string str() const { return node_text(*node, owner->names); }
  std::string args_text() const {
    const std::string text = str();
    const std::string head = node->op.str() + "(";
    const size_t begin = text.find(head) + head.size();
    return text.substr(begin, text.size() - 1 - begin);
  }
};

// Sizes and strides: numbers, and expressions as text.
nb::object dims(const Type& type, const std::vector<Dim>& dims) {
  if (!type.is_tensor()) return nb::none();
  nb::list items;
  for (const Dim& dim : dims) {
    if (dim.is_number()) {
      items.append(dim.number());
    } else {
      items.append(dim.str());
    }
  }
  return nb::tuple(items);
}
nb::object shape_of(const ValueObject& v) { return dims(v.type(), v.type().sizes); }
nb::object strides_of(const ValueObject& v) { return dims(v.type(), v.type().strides); }
nb::object dtype_of(const ValueObject& v) {
  return v.type().is_tensor() ? hand_over(wrap_dtype(v.type().dtype)) : nb::none();
}
nb::object device_of(const ValueObject& v) {
  return v.type().is_tensor() ? hand_over(wrap_device(v.type().device)) : nb::none();
}

PyTypeObject* source_type() {
  static PyStructSequence_Field fields[] = {{"file", "path of the file"},
                                            {"line", "number of the line"},
                                            {"function", "name of the function"},
                                            {nullptr, nullptr}};
  static PyStructSequence_Desc description = {"firesteel.Source", "A line of the user's program.", fields, 3};
  static PyTypeObject* const type = PyStructSequence_NewType(&description);
  return type;
}

nb::object source_of(const NodeObject& n) {
  const SourceRef& source = n.node->source;
  if (!source || !source->file) return nb::none();
  PyRef result = checked(PyStructSequence_New(source_type()));
  PyStructSequence_SET_ITEM(result.get(), 0, new_text(source->file->path).release());
  PyStructSequence_SET_ITEM(result.get(), 1, PyLong_FromLong(source->line));
  PyStructSequence_SET_ITEM(result.get(), 2, new_text(source->function).release());
  return hand_over(std::move(result));
}

std::vector<std::string> input_names(const NodeObject& n) {
  std::vector<std::string> names;
  n.node->each_input([&](const Value* value) { names.push_back(n.owner->names(value).substr(1)); });
  return names;
}

std::vector<std::string> output_names(const NodeObject& n) {
  std::vector<std::string> names;
  for (const ValueObject& output : n.outputs()) names.push_back(output.name());
  return names;
}

std::vector<NodeObject> nodes_of(const GraphObject& g) {
  std::vector<NodeObject> nodes;
  for (const auto& node : g.shown->graph->nodes) nodes.push_back({g.shown, node.get()});
  return nodes;
}

std::vector<ValueObject> inputs_of(const GraphObject& g) {
  std::vector<ValueObject> values;
  for (const Input& input : g.shown->graph->inputs)
    values.push_back({g.shown, input.value.get(), role_text(input.role)});
  return values;
}

// Values, None where no tensor stands, and constants as text.
nb::list outputs_of(const GraphObject& g) {
  nb::list outputs;
  for (const Arg& arg : g.shown->graph->outputs) {
    if (arg.kind == Arg::Kind::Value) {
      outputs.append(ValueObject{g.shown, arg.value});
    } else if (arg.kind == Arg::Kind::Const) {
      outputs.append(nb::str(c10::str(arg.constant).c_str()));
    } else {
      outputs.append(nb::none());
    }
  }
  return outputs;
}

nb::list captured_by(const GraphObject& g) {
  nb::list tensors;
  for (const Input& input : g.shown->graph->inputs) {
    if (input.role == InputRole::Captured && input.captured.defined()) tensors.append(hand_over(wrap(input.captured)));
  }
  return tensors;
}

GraphObject part(const GraphObject& g, const Graph& graph) {
  return {std::make_shared<const NamedGraph>(std::shared_ptr<const Graph>(g.traced, &graph)), nullptr};
}

const TracedFunction& traced_or_refuse(const GraphObject& g) {
  if (!g.traced) {
    throw nb::type_error(
        "this graph is for reading: it came from text, or is a part of a trace; call what firesteel.trace returned");
  }
  return *g.traced;
}

nb::list run_flat(const GraphObject& g, const nb::sequence& inputs, bool native) {
  std::vector<at::Tensor> given;
  for (nb::handle input : inputs) {
    if (!is_tensor(input.ptr())) throw nb::type_error("Graph.run() takes a list of tensors");
    given.push_back(unpack(input.ptr()));
  }
  std::vector<at::Tensor> results;
  with_torch_warnings([&] {
    const GilRelease no_gil;
    results = run_graph(*g.shown->graph, std::move(given), native);
  });
  nb::list outputs;
  for (const at::Tensor& result : results) outputs.append(result.defined() ? hand_over(wrap(result)) : nb::none());
  return outputs;
}

nb::object backward_of(const GraphObject& g) {
  const Graph* backward = traced_or_refuse(g).executable().backward();
  return backward ? nb::cast(part(g, *backward)) : nb::none();
}

std::string short_text(const GraphObject& g) {
  const Graph& graph = *g.shown->graph;
  return fmt::format("<firesteel.Graph {}: {} inputs, {} nodes, {} outputs>", graph.name, graph.inputs.size(),
                     graph.nodes.size(), graph.outputs.size());
}

void bind_values_and_nodes(nb::module_& module) {
  nb::class_<ValueObject>(module, "Value", "A value of a graph: one of its inputs, or an output of a node.")
      .def_prop_ro("name", &ValueObject::name, "The name in the graph's text, without '%'.")
      .def_prop_ro(
          "type", [](const ValueObject& v) { return v.type().str(); }, "As in the graph's text: `f32[8, 16]`.")
      .def_prop_ro(
          "role", [](const ValueObject& v) { return v.role ? std::optional<std::string>(v.role) : std::nullopt; },
          "Of an input: 'argument', 'captured', 'tangent' or 'saved'; None for others.")
      .def_prop_ro("shape", &shape_of, "Sizes; text where one is an expression; None for what is no tensor.")
      .def_prop_ro("strides", &strides_of)
      .def_prop_ro("dtype", &dtype_of)
      .def_prop_ro("device", &device_of)
      .def_prop_ro("requires_grad", [](const ValueObject& v) { return v.type().requires_grad; })
      .def("__repr__", &ValueObject::str);

  nb::class_<NodeObject>(module, "Node", "One operator call of a graph.")
      .def_prop_ro(
          "op", [](const NodeObject& n) { return n.node->op.str(); }, "`aten.add.Tensor`.")
      .def_prop_ro(
          "name", [](const NodeObject& n) { return n.first().name(); }, "The name of the first output.")
      .def_prop_ro("names", &output_names)
      .def_prop_ro("inputs", &input_names, "Names of the values it reads, in order.")
      .def_prop_ro("args", &NodeObject::args_text, "The arguments as in the graph's text.")
      .def_prop_ro("outputs", &NodeObject::outputs)
      .def_prop_ro("type", [](const NodeObject& n) { return n.first().type().str(); })
      .def_prop_ro("shape", [](const NodeObject& n) { return shape_of(n.first()); })
      .def_prop_ro("strides", [](const NodeObject& n) { return strides_of(n.first()); })
      .def_prop_ro("dtype", [](const NodeObject& n) { return dtype_of(n.first()); })
      .def_prop_ro("device", [](const NodeObject& n) { return device_of(n.first()); })
      .def_prop_ro("source", &source_of, "Source(file, line, function) of the user's line; None where unknown.")
      .def_prop_ro("phase",
                   [](const NodeObject& n) { return n.node->phase == Phase::Backward ? "backward" : "forward"; })
      .def("__repr__", &NodeObject::str);
}

}  // namespace

void bind_graph_objects(nb::module_& module) {
  module.attr("Source") = nb::borrow(reinterpret_cast<PyObject*>(source_type()));
  bind_values_and_nodes(module);
  nb::class_<GraphObject>(module, "Graph", "A traced function as a graph of ATen operators.")
      .def(
          "__call__",
          [](const GraphObject& g, const nb::args& args, const nb::kwargs& kwargs) {
            const std::shared_ptr<const TracedFunction> traced = g.traced;  // the call may drop the last reference to g
            traced_or_refuse(g);
            return hand_over(traced->call(args.ptr(), kwargs.ptr()));
          },
          nb::sig("def __call__(self, *args: object, **kwargs: object) -> typing.Any"),
          "Runs the graph on new tensors of the same structure, shapes and dtypes.")
      .def("run", &run_flat, nb::arg("inputs"), nb::arg("native") = false,
           nb::sig("def run(self, inputs: typing.Sequence[torch.Tensor], native: bool = False) -> "
                   "list[torch.Tensor | None]"),
           "Runs the operators as they stand, on one tensor for each of `inputs`, and gives what `outputs` names; a "
           "graph "
           "from text\ncan be run too. By ATen, or with native=True in compiled kernels where there are such. Nothing "
           "is "
           "differentiated.")
      .def_prop_ro("name", [](const GraphObject& g) { return g.shown->graph->name; })
      .def_prop_ro("nodes", &nodes_of)
      .def_prop_ro("inputs", &inputs_of)
      .def_prop_ro("outputs", &outputs_of)
      .def_prop_ro(
          "conditions", [](const GraphObject& g) { return traced_or_refuse(g).executable().conditions(); },
          "What the sizes that the graph leaves open must meet, with the line that asks for it.")
      .def_prop_ro("captured", &captured_by, "The tensors it holds: what the function reached besides its arguments.")
      .def_prop_ro(
          "joint", [](const GraphObject& g) { return part(g, traced_or_refuse(g).executable().joint()); },
          "Forward and backward in one graph.")
      .def_prop_ro("forward", [](const GraphObject& g) { return part(g, traced_or_refuse(g).executable().forward()); })
      .def_prop_ro("backward", &backward_of, "None where the function was traced without gradients.")
      .def("__str__", [](const GraphObject& g) { return g.shown->graph->str(); })
      .def("__repr__", &short_text);
}

}  // namespace firesteel::python
