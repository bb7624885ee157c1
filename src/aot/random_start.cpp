// Generators by node, and as they were.
#include "aot/random_start.h"

#include <algorithm>
#include <mutex>

#include "aot/dispatch_keys.h"
#include "aot/random_states.h"

namespace firesteel {

void add_generator_of(const Node& node, std::vector<at::Generator>& generators) {
  std::vector<c10::IValue> constants;
  for (const Arg& arg : node.args) constants.push_back(arg.constant);
  const bool makes = !node.outputs.empty() && node.outputs[0]->type.is_tensor();
  at::Generator used = generator_for(constants, makes ? node.outputs[0]->type.device : c10::Device(at::kCPU));
  if (std::find(generators.begin(), generators.end(), used) == generators.end()) generators.push_back(std::move(used));
}

RandomStart::RandomStart(const std::vector<at::Generator>& generators) {
  for (at::Generator generator : generators) {  // NOLINT(performance-for-range-copy): its mutex is not const
    std::lock_guard lock(generator.mutex());
    starts_.push_back({generator, generator.clone()});
  }
}

void RandomStart::restore() {
  OutsideTrace outside;
  for (Start& start : starts_) {
    const at::Tensor state = start.copy.get_state();
    std::lock_guard lock(start.generator.mutex());
    start.generator.set_state(state);
  }
}

}  // namespace firesteel
