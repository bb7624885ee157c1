// Runs what a capture found: the torch-level graph call by call, or the ATen graph underneath.
#pragma once

#include <memory>

#include "capture/capture.h"
#include "runtime/executable.h"

namespace firesteel::capture {

// One table for the names a user may write and what they mean.
#define FIRESTEEL_BACKENDS(X)                                               \
  X(Eager, "eager", "calls the functions of the captured graph one by one") \
  X(AotEager, "aot_eager", "runs the ATen graph with its backward as one autograd node")

enum class Backend : uint8_t {
#define X(name, text, what) name,
  FIRESTEEL_BACKENDS(X)
#undef X
};
std::optional<Backend> backend_named(std::string_view name);
std::string backend_names();

class Runner {
 public:
  virtual ~Runner() = default;
  // `slots` are the guard program's values. False: the inputs do not fit after all, nothing has run.
  virtual bool run(PyObject* const* slots, std::vector<PyRef>& outputs) const = 0;
  virtual std::string aten_text() const { return {}; }
};

// `inputs`: the slot of each input of the graph.
std::unique_ptr<Runner> make_eager_runner(const Graph& graph, std::vector<uint32_t> inputs);
// `inputs`: the slot of each argument of the executable.
std::unique_ptr<Runner> make_aot_runner(Executable executable, std::vector<uint32_t> inputs);

}  // namespace firesteel::capture
