// The Python objects for graphs: Graph, its nodes and values.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "graph/graph.h"
#include "graph/print.h"
#include "python/py_ref.h"
#include "python/traced_function.h"

namespace firesteel::python {

// A graph and the names its text uses. Everything a Python object shows of a graph holds this alive.
struct NamedGraph {
  explicit NamedGraph(std::shared_ptr<const Graph> graph) : graph(std::move(graph)), names(*this->graph) {}
  std::shared_ptr<const Graph> graph;
  ValueNames names;
};

// What firesteel.trace returns, a part of it (`joint`, `backward`), or a graph read from text.
struct GraphObject {
  std::shared_ptr<const NamedGraph> shown;
  std::shared_ptr<const TracedFunction> traced;  // null where the graph cannot be called
};

void bind_graph_objects(nanobind::module_& module);

}  // namespace firesteel::python
