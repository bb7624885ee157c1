// Makes a program of a graph and runs it below autograd.
#include "runtime/graph_run.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "fuse/two_directions.h"
#include "runtime/below_autograd.h"
#include "runtime/tiers.h"

namespace firesteel {
namespace {

void check_inputs(const Graph& graph, const std::vector<at::Tensor>& inputs) {
  FS_REQUIRE(
      !has_symbols(graph), InputMismatchError,
      "this graph leaves sizes open, and cannot be run as it stands\n  try: numbers in place of the names of sizes");
  FS_REQUIRE(inputs.size() == graph.inputs.size(), InputMismatchError, "the graph takes {} inputs and got {}",
             graph.inputs.size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Type& type = graph.inputs[i].value->type;
    const at::Tensor& given = inputs[i];
    FS_REQUIRE(type.is_tensor() && given.defined(), InputMismatchError, "input {} is no tensor", i + 1);
    const std::vector<int64_t> sizes = sizes_of(type.sizes, {}), strides = sizes_of(type.strides, {});
    bool fits = given.scalar_type() == type.dtype && given.sizes() == at::IntArrayRef(sizes);
    for (int64_t d = 0; fits && d < given.dim(); ++d) {
      fits = given.size(d) <= 1 || given.numel() == 0 || given.stride(d) == strides[d];
    }
    FS_REQUIRE(fits, InputMismatchError, "input {} of the graph is {}, and a tensor {}[{}; {}] was given", i + 1,
               type.str(), dtype_text(given.scalar_type()), fmt::join(given.sizes(), ", "),
               fmt::join(given.strides(), ", "));
  }
}

}  // namespace

std::vector<at::Tensor> run_graph(const Graph& graph, std::vector<at::Tensor> inputs, bool native) {
  check_inputs(graph, inputs);
  const BelowAutograd below;
  ProgramOptions options;
  if (!native) return Program(graph, options).run(std::move(inputs));
  Graph chosen = graph.clone();
  split_directions(chosen);
  prepare_for_native(chosen);
  options.native = true;
  options.fuse = fuse_options();
  return Program(chosen, options).run(std::move(inputs));
}

}  // namespace firesteel
