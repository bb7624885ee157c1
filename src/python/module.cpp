// The extension module firesteel._C: what Python can call.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "aot/size_rules.h"
#include "aot/trace.h"
#include "capture/bindings.h"
#include "codegen/background.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/graph_objects.h"
#include "python/pytree_nodes.h"
#include "python/shape_functions.h"
#include "python/tensor_objects.h"
#include "python/user_frames.h"
#include "runtime/buffer_pool.h"
#include "runtime/fastest.h"
#include "runtime/frozen_weights.h"
#include "runtime/run_costs.h"
#include "runtime/run_counters.h"
#include "runtime/watched_runs.h"

namespace nb = nanobind;

namespace firesteel::python {
namespace {

GraphObject make_graph(std::shared_ptr<const TracedFunction> traced) {
  std::shared_ptr<const Graph> joint(traced, &traced->executable().joint());
  return {std::make_shared<const NamedGraph>(std::move(joint)), std::move(traced)};
}

// A keyword of trace() itself; False where it is not given.
bool take_flag(PyObject* kwargs, const char* name) {
  PyRef asked = PyRef::borrow(PyDict_GetItemString(kwargs, name));
  if (!asked) return false;
  if (!PyBool_Check(asked.get()))
    throw nb::type_error(fmt::format("trace(..., {}=…) must be True or False", name).c_str());
  check(PyDict_DelItemString(kwargs, name) == 0);
  return asked.get() == Py_True;
}

// The function comes first and `grad`, `native` and `dynamic` are taken out, so that everything else can be the
// function's own.
GraphObject trace_function(const nb::args& positional, const nb::kwargs& named) {
  if (positional.size() == 0) throw nb::type_error("trace() needs the function to trace as its first argument");
  PyRef function = PyRef::borrow(positional[0].ptr());
  if (!PyCallable_Check(function.get())) {
    const std::string message = fmt::format("trace() needs a callable first, not {}", spell(function.get()));
    throw nb::type_error(message.c_str());
  }
  PyRef args = checked(PyTuple_GetSlice(positional.ptr(), 1, PyTuple_GET_SIZE(positional.ptr())));
  PyRef kwargs = checked(PyDict_Copy(named.ptr()));
  TracedFunction::Options options;
  options.grad = take_flag(kwargs.get(), "grad");
  options.native = take_flag(kwargs.get(), "native");
  options.dynamic = take_flag(kwargs.get(), "dynamic");
  return make_graph(share_across_threads(TracedFunction(function.get(), args.get(), kwargs.get(), options)));
}

GraphObject parse_text(const std::string& text) {
  auto graph = std::make_shared<const Graph>(parse_graph(text));
  return {std::make_shared<const NamedGraph>(std::move(graph)), nullptr};
}

nb::dict counters() {
  const TraceCounters now = trace_counters();
  nb::dict result;
  result["recorded"] = now.recorded;
  result["rule"] = now.rule;
  result["cpp_meta"] = now.cpp_meta;
  result["python_meta"] = now.python_meta;
  result["zero_run"] = now.zero_run;
  nb::dict slow;
  for (const auto& [op, count] : now.slow) slow[op.c_str()] = count;
  result["slow"] = slow;
  return result;
}

nb::dict native_counts() {
  const RunCounters runs = run_counters();
  const KernelCounters kernels = kernel_counters();
  nb::dict result;
  result["kernels_compiled"] = kernels.compiled;
  result["kernels_loaded"] = kernels.loaded;
  result["kernels_shared"] = kernels.shared;
  result["kernels_failed"] = kernels.failed;
  result["kernels_run"] = runs.kernels;
  const PoolCounters pool = pool_counters();
  result["buffers_fresh"] = pool.fresh;
  result["buffers_reused"] = pool.reused;
  result["buffers_returned"] = pool.returned;
  result["room_made"] = pool.room_made;
  result["idle_bytes"] = pool.idle_bytes;
  result["native_ops"] = runs.native_ops;
  result["aten_ops"] = runs.aten_ops;
  result["onednn_matmuls"] = runs.onednn_matmuls;
  result["open_kernels"] = runs.open_kernels;
  const FrozenCounters frozen = frozen_counters();
  const ContestCounters contests = contest_counters();
  result["contests_held"] = contests.held;
  result["contests_loaded"] = contests.loaded;
  result["frozen_runs"] = frozen.runs;
  result["weights_prepared"] = frozen.preparations;
  return result;
}

nb::tuple stop_log() {
  const RunLog log = stop_run_log();
  nb::list rows;
  for (const LoggedRun& run : log.runs) rows.append(nb::make_tuple(run.name, run.thread, run.began, run.seconds));
  return nb::make_tuple(rows, log.left_out);
}

void reset_native_counts() {
  reset_run_counters();
  reset_kernel_counters();
  reset_pool_counters();
}

// Looks up, while nothing else runs, the types that later calls compare with.
void look_up_types() {
  is_constant(Py_None);
  kind_of(Py_None);
}

}  // namespace

NB_MODULE(_C, module) {
#ifdef NDEBUG
  nb::set_leak_warnings(false);  // a graph that a program still holds as it ends is no leak to tell its user of
#endif
  module.doc() = "Firesteel's native part.";
  install_errors(module.ptr());
  nb::register_exception_translator([](const std::exception_ptr& error, void*) { set_python_error(error); });
  look_up_types();
  bind_graph_objects(module);
  capture::bind_capture(module);
  set_source_provider(&user_source);
  ask_python_for_shapes();

  module.def(
      "trace", &trace_function,
      nb::sig("def trace(fn: typing.Callable[..., typing.Any], /, *args: object, grad: bool = False, native: bool = "
              "False, dynamic: bool = False, **kwargs: object) "
              "-> Graph"),
      "Runs fn on traced stand-ins of its arguments and records it as a graph; with grad=True its backward too.\n"
      "With native=True pointwise operators run in compiled kernels; with dynamic=True the graph serves other sizes "
      "too.");
  module.def("_settled_operators", &settled_operators,
             "For tests: operators that fixed the sizes they were given, and how often.");
  module.def("parse_graph", &parse_text, nb::arg("text"), "Reads what str(graph) wrote.");
  module.def(
      "is_traced", [](nb::handle object) { return is_tensor(object.ptr()) && is_traced_tensor(unpack(object.ptr())); },
      nb::arg("tensor").none(), "True for a tensor that stands for a value of a trace, running or ended.");
  module.def("trace_counters", &counters, "How many operators were recorded, and how each found its shape.");
  module.def("reset_trace_counters", &reset_trace_counters);
  module.def("native_counters", &native_counts, "Kernels compiled and run, and operators run in them and by ATen.");
  module.def("reset_native_counters", &reset_native_counts);
  module.def("_fail_kernels", &fail_kernels, nb::arg("fail"), "For tests: no kernel can be made from now on.");
  module.def("_spoil_kernels", &spoil_kernels, nb::arg("spoil"),
             "For tests: kernels that are made from now on give floats of the wrong sign.");
  module.def("_hold_background_compiler", &hold_background_compiler, nb::arg("held"),
             "For tests: while held, no kernel is compiled in the background.");
  module.def("_start_run_log", &start_run_log, "Keeps every run of compiled code from now on.");
  module.def("_stop_run_log", &stop_log,
             "Ends that: [(name, thread, began, seconds), …] by the steady clock, and how many were left out.");
  module.def("_set_profiling", &set_profiling, nb::arg("on"), "Whether each kernel and operator is timed as it runs.");
  module.def("_is_profiling", &is_profiling);
  module.def("_empty_pool", &empty_pool, "Gives memory that kernels' results have left back to the system.");
  module.def("_forget_kernels", &forget_kernels, "For tests: kernels are made, or taken from disk, once more.");
  module.def("_forget_contests", &forget_contests,
             "For tests: libraries are compared, or looked up on disk, once more.");
  module.def(
      "_round_trip",
      [](nb::handle value) {
        const Flat flat = flatten_input(value.ptr(), "value");
        size_t next = 0;
        return nb::steal(unflatten(flat.tree, flat.leaves, next).release());
      },
      nb::arg("value").none(), "For benchmarks: takes a nested value apart and builds it again.");
  module.def(
      "_like",
      [](nb::handle value, size_t times) {
        const Flat flat = flatten_input(value.ptr(), "value");
        for (size_t i = 0; i < times; ++i) {
          std::vector<PyRef> leaves;
          flatten_like(flat.tree, value.ptr(), "value", false, leaves);
          size_t next = 0;
          unflatten(flat.tree, leaves, next);
        }
      },
      nb::arg("value").none(), nb::arg("times"),
      "For benchmarks: takes a nested value apart along a known structure and builds it again, as calls do.");
  module.def("_set_library_folders", &set_library_folders, nb::arg("folders"));
}

}  // namespace firesteel::python
