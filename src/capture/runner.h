// Runs what a capture found: the torch-level graph call by call, or the ATen graph underneath.
#pragma once

#include <memory>

#include "capture/capture.h"
#include "capture/size_spec.h"
#include "runtime/executable.h"

namespace firesteel::capture {

// One table for the names a user may write and what they mean.
#define FIRESTEEL_BACKENDS(X)                                                            \
  X(Eager, "eager", "calls the functions of the captured graph one by one")              \
  X(AotEager, "aot_eager", "runs the ATen graph with its backward as one autograd node") \
  X(Native, "firesteel", "the same, with pointwise operators in compiled kernels")

enum class Backend : uint8_t {
#define X(name, text, what) name,
  FIRESTEEL_BACKENDS(X)
#undef X
      Callable,  // a function of the user's
};
std::optional<Backend> backend_named(std::string_view name);
std::vector<std::pair<std::string_view, std::string_view>> backend_rows();  // names, and what they mean

// Which sizes of tensors a graph leaves open: those that were others at an earlier call, none, or all.
enum class SizePolicy : uint8_t { Changed, None, All };

struct BackendChoice {
  Backend kind;
  PyRef compiler;       // Callable: gives a builder for a graph (python/firesteel/interop)
  bool wait = false;    // Native: the first call waits for the code
  bool freeze = false;  // Native: weights are prepared once
  SizePolicy sizes = SizePolicy::Changed;
  PyRef guard_filter;                    // says which guards are kept (guard_filter.h); null: all
  std::shared_ptr<const SizeSpec> spec;  // of the arguments; what it does not name keeps its size

  bool runs_aten() const { return kind == Backend::AotEager || kind == Backend::Native; }
};

struct Segment;

class Runner {
 public:
  virtual ~Runner() = default;
  // `slots` are the guard program's values. False: the inputs do not fit after all, nothing has run.
  // Throws DataMismatch where data breaks what the graph takes for granted: nothing has changed.
  virtual bool run(PyObject* const* slots, std::vector<PyRef>& outputs) const = 0;
  virtual const Executable* executable() const { return nullptr; }  // the ATen graph's, where there is one
  // What each kernel gives beside what ATen gives.
  virtual std::vector<KernelResult> compare_kernels(PyObject* const*) const { return {}; }
  virtual double compile_seconds() const { return 0; }  // spent at the first run
  virtual int traverse(visitproc, void*) const { return 0; }
  // The ATen graphs, and what this call would give them.
  virtual std::vector<GraphWithInputs> parts_for(PyObject* const*) const { return {}; }
};

// `inputs`: the slot of each input of the graph. `holdings` are those of the runner's entry.
std::unique_ptr<Runner> make_eager_runner(const Graph& graph, std::vector<uint32_t> inputs, guards::Holdings& holdings);
// `inputs`: the slot of each argument of the executable.
// `captured`: the same for each of its captured tensors; -1 for one that it keeps itself.
std::unique_ptr<Runner> make_aot_runner(Executable executable, std::vector<uint32_t> inputs,
                                        std::vector<int32_t> captured);
// Hands the graph over at the first run, with that run's inputs as examples, and runs what comes back.
struct BackendInput;
std::unique_ptr<Runner> make_callable_runner(Graph graph, std::vector<BackendInput> inputs, PyRef compiler);

// Where FIRESTEEL_CHECK=1: before `inner` runs, it and `eager` run on copies of the inputs, and must agree
// (checking_runner.cpp). `inputs` are the slots of all inputs of the torch-level graph; no runner reads `slot_count` or
// above. `segment` owns the runner.
bool results_are_checked();
std::unique_ptr<Runner> make_checking_runner(std::unique_ptr<Runner> inner, std::unique_ptr<Runner> eager,
                                             std::vector<uint32_t> inputs, size_t slot_count, const Segment& segment);

}  // namespace firesteel::capture
