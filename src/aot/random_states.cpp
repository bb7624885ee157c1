// Random draws while tracing: see random_states.h.
#include "aot/random_states.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include "aot/dispatch_keys.h"
#include "base/error.h"

namespace firesteel {
namespace {

std::string state_bytes(at::Generator generator) {
  OutsideTrace outside;
  std::lock_guard lock(generator.mutex());
  const at::Tensor state = generator.get_state();
  return std::string(static_cast<const char*>(state.const_data_ptr()), state.nbytes());
}

std::string draw_key(const std::string& state, const c10::OperatorHandle& op) { return state + toString(op.operator_name()); }

}  // namespace

RandomStates::Track& RandomStates::track_of(at::Generator generator) {
  for (Track& track : tracks_) {
    if (track.generator == generator) return track;
  }
  OutsideTrace outside;
  at::Tensor initial;
  {
    std::lock_guard lock(generator.mutex());
    initial = generator.get_state();
  }
  Track& track = tracks_.emplace_back(Track{generator, initial, {}, {}});
  track.known[state_bytes(generator)] = true;
  return track;
}

void RandomStates::start() { track_of(at::detail::getDefaultCPUGenerator()); }

Node* RandomStates::repeated_draw(const at::Generator& generator, const c10::OperatorHandle& op) {
  Track& track = track_of(generator);
  const std::string state = state_bytes(generator);
  FS_REQUIRE(track.known.count(state), TraceError,
             "the traced function seeds or sets the random generator: a replay would not repeat that\n"
             "  try: seed outside the traced function, or pass it a torch.Generator of your own");
  auto found = track.draws.find(draw_key(state, op));
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

bool RandomStates::was_seeded() const {
  for (const Track& track : tracks_) {
    if (!track.known.count(state_bytes(track.generator))) return true;
  }
  return false;
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

}  // namespace firesteel
