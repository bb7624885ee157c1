// Random draws while tracing: see random_states.h.
#include "aot/random_states.h"

#include <mutex>
#include <unordered_set>

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

// The default generator is shared by all threads. What concurrent traces do to it is none of the others' business.
struct Sharing {
  std::mutex mutex;
  size_t traces = 0, started = 0;
  at::Tensor initial;                    // as the first of them found it
  std::unordered_set<std::string> ours;  // where they have moved it
};

Sharing& sharing() {
  static auto* sharing = new Sharing;  // never destroyed: a thread may trace while the process ends
  return *sharing;
}

thread_local size_t t_nested = 0;  // traces of this thread, one inside the other

void note_as_ours(const std::string& state) {
  std::lock_guard lock(sharing().mutex);
  sharing().ours.insert(state);
}

// Seeded, and nothing drawn since.
bool is_just_seeded(const at::mt19937_data_pod& engine) { return engine.left_ == 1 && engine.next_ == 0; }

at::Generator or_default(const std::optional<at::Generator>& generator) {
  return generator ? *generator : at::detail::getDefaultCPUGenerator();
}

// Kernels: the dispatcher hands generators over by value.
// NOLINTBEGIN(performance-unnecessary-value-param)
void set_generator_state(const at::Tensor& state, std::optional<at::Generator> generator) {
  at::Generator target = or_default(generator);
  std::lock_guard lock(target.mutex());
  target.set_state(state);
}

at::Tensor get_generator_state(std::optional<at::Generator> generator) { return state_of(or_default(generator)); }
// NOLINTEND(performance-unnecessary-value-param)

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

const c10::OperatorHandle& get_generator_state_op() {
  static const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow("firesteel::get_generator_state", "");
  return op;
}

RandomStates::Track& RandomStates::track_of(const at::Generator& generator) {
  for (Track& track : tracks_) {
    if (track.generator == generator) return track;
  }
  Track& track = tracks_.emplace_back(Track{generator, state_of(generator), {}, {}, state_bytes(generator)});
  track.known.emplace(track.here, nullptr);
  return track;
}

void RandomStates::start() {
  Track& track = track_of(at::detail::getDefaultCPUGenerator());
  if (t_nested++ == 0) {
    std::lock_guard lock(sharing().mutex);
    is_alone_ = sharing().traces++ == 0;
    if (is_alone_) sharing().initial = track.initial;
    track.initial = sharing().initial;
    number_ = ++sharing().started;
    sharing().ours.insert(track.here);
  }
  {
    std::lock_guard lock(track.generator.mutex());
    auto* cpu = at::check_generator<at::CPUGeneratorImpl>(track.generator);
    at::mt19937 engine = cpu->engine();
    at::mt19937_data_pod data = engine.data();
    if (is_just_seeded(data)) {
      data.state_[1] ^= 0x5f3759df;
      engine.set_data(data);
      cpu->set_engine(engine);
    }
  }
  track.known.clear();
  moved(track.generator, nullptr);
}

bool RandomStates::is_of_another_trace(const std::string& state) const {
  std::lock_guard lock(sharing().mutex);
  const bool others = !is_alone_ || sharing().started != number_;
  return number_ != 0 && others && sharing().ours.count(state) != 0;
}

RandomStates::Place RandomStates::place_of(const at::Generator& generator) {
  Track& track = track_of(generator);
  const std::string now = state_bytes(generator);
  if (now == track.here) return {true, true, nullptr};
  auto found = track.known.find(now);
  if (found != track.known.end()) return {false, true, found->second};
  if (!is_of_another_trace(now)) return {};
  track.here = now;
  return {true, true, nullptr};
}

void RandomStates::moved(const at::Generator& generator, Node* node) {
  Track& track = track_of(generator);
  track.here = state_bytes(generator);
  track.known.emplace(track.here, node);
  note_as_ours(track.here);
}

std::vector<at::Generator> RandomStates::generators() const {
  std::vector<at::Generator> result;
  for (const Track& track : tracks_) result.push_back(track.generator);
  return result;
}

Node* RandomStates::earlier_draw(const at::Generator& generator, const c10::OperatorHandle& op) {
  Track& track = track_of(generator);
  auto found = track.draws.find(draw_key(state_bytes(generator), op));
  return found == track.draws.end() ? nullptr : found->second;
}

void RandomStates::advance(at::Generator generator, const c10::OperatorHandle& op, Node* node) {
  Track& track = track_of(generator);
  if (node) track.draws.emplace(draw_key(state_bytes(generator), op), node);
  {
    OutsideTrace outside;
    std::lock_guard lock(generator.mutex());
    if (generator.device().is_cpu()) {
      at::check_generator<at::CPUGeneratorImpl>(generator)->random();
    } else {
      generator.set_offset(generator.get_offset() + 4);
    }
  }
  if (node) moved(generator, node);
}

void RandomStates::restore() {
  OutsideTrace outside;
  for (Track& track : tracks_) {
    std::lock_guard lock(track.generator.mutex());
    track.generator.set_state(track.initial);
  }
  if (--t_nested > 0) return;
  std::lock_guard lock(sharing().mutex);
  if (--sharing().traces == 0) sharing().ours.clear();
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
  library.def("get_generator_state(Generator? generator=None) -> Tensor");
  library.impl("get_generator_state", c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(get_generator_state));
}

}  // namespace firesteel
