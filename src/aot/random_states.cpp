// Random draws while tracing: see random_states.h.
#include "aot/random_states.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <torch/library.h>

#include "aot/dispatch_keys.h"

namespace firesteel {
namespace {

template <class T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// What the next draws depend on, as bytes. The CPU generator's own state tensor has padding that is never set.
std::string state_bytes(at::Generator generator) {
  OutsideTrace outside;
  std::lock_guard lock(generator.mutex());
  std::string bytes;
  if (generator.device().is_cpu()) {
    auto* cpu = at::check_generator<at::CPUGeneratorImpl>(generator);
    const at::mt19937_data_pod engine = cpu->engine().data();
    append(bytes, engine.seed_);
    append(bytes, engine.left_);
    append(bytes, engine.next_);
    append(bytes, engine.state_);
    append(bytes, cpu->next_float_normal_sample().value_or(-1));
    append(bytes, cpu->next_double_normal_sample().value_or(-1));
  } else {
    const at::Tensor state = generator.get_state();
    bytes.assign(static_cast<const char*>(state.const_data_ptr()), state.nbytes());
  }
  return bytes;
}

std::string draw_key(const std::string& state, const c10::OperatorHandle& op) {
  return state + toString(op.operator_name());
}

void set_generator_state(const at::Tensor& state, std::optional<at::Generator> generator) {
  at::Generator target = generator ? *generator : at::detail::getDefaultCPUGenerator();
  std::lock_guard lock(target.mutex());
  target.set_state(state);
}

}  // namespace

at::Tensor state_of(at::Generator generator) {
  OutsideTrace outside;
  std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

const c10::OperatorHandle& set_generator_state_op() {
  static const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow("firesteel::set_generator_state", "");
  return op;
}

RandomStates::Track& RandomStates::track_of(at::Generator generator) {
  for (Track& track : tracks_) {
    if (track.generator == generator) return track;
  }
  Track& track = tracks_.emplace_back(Track{generator, state_of(generator), {}, {}});
  track.known[state_bytes(generator)] = true;
  return track;
}

void RandomStates::start() { track_of(at::detail::getDefaultCPUGenerator()); }

bool RandomStates::was_seeded(at::Generator generator) {
  return track_of(generator).known.emplace(state_bytes(generator), true).second;
}

std::vector<at::Generator> RandomStates::generators() const {
  std::vector<at::Generator> result;
  for (const Track& track : tracks_) result.push_back(track.generator);
  return result;
}

Node* RandomStates::repeated_draw(const at::Generator& generator, const c10::OperatorHandle& op) {
  Track& track = track_of(generator);
  auto found = track.draws.find(draw_key(state_bytes(generator), op));
  return found == track.draws.end() ? nullptr : found->second;
}

void RandomStates::advance(at::Generator generator, const c10::OperatorHandle& op, Node* node) {
  Track& track = track_of(generator);
  if (node) track.draws[draw_key(state_bytes(generator), op)] = node;
  {
    OutsideTrace outside;
    std::lock_guard lock(generator.mutex());
    if (generator.device().is_cpu()) {
      at::check_generator<at::CPUGeneratorImpl>(generator)->random();
    } else {
      generator.set_offset(generator.get_offset() + 4);
    }
  }
  track.known[state_bytes(generator)] = true;
}

void RandomStates::restore() {
  OutsideTrace outside;
  for (Track& track : tracks_) {
    std::lock_guard lock(track.generator.mutex());
    track.generator.set_state(track.initial);
  }
}

at::Generator generator_for(c10::ArrayRef<c10::IValue> args, c10::Device device) {
  for (const c10::IValue& arg : args) {
    if (arg.isGenerator()) return arg.toGenerator();
  }
  return at::globalContext().defaultGenerator(device);
}

TORCH_LIBRARY(firesteel, library) {
  library.def("set_generator_state(Tensor state, Generator? generator=None) -> ()");
  library.impl("set_generator_state", c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(set_generator_state));
}

}  // namespace firesteel
