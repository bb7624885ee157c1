// Keeps random numbers in a traced function in step with eager's.
//
// Fakes draw nothing, so while tracing each recorded draw moves the generator by hand: a function that saves the
// generator's state, draws, restores it and draws again (activation checkpointing) shows the same state twice, and its
// second draw is the first one's value. A state that no recorded draw led to means the function seeded the generator
// itself: the state becomes a constant of the graph, set by a node of its own. All generators are put back at the end.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/Generator.h>

#include "graph/graph.h"

namespace firesteel {

class RandomStates {
 public:
  RandomStates() = default;
  RandomStates(const RandomStates&) = delete;

  // True where the generator is in a state that no recorded draw led to: the function has seeded it. Asked once a
  // seeding.
  bool was_seeded(at::Generator generator);
  // The node that drew from this very state before with the same operator, or null: then record, and call `advance`.
  Node* repeated_draw(const at::Generator& generator, const c10::OperatorHandle& op);
  void advance(at::Generator generator, const c10::OperatorHandle& op, Node* node);

  // Notes the default generator as it is before the function runs, so that seeding is noticed at the end.
  void start();
  std::vector<at::Generator> generators() const;
  void restore();

 private:
  struct Track {
    at::Generator generator;
    at::Tensor initial;
    std::unordered_map<std::string, Node*> draws;  // "state bytes|operator" → node
    std::unordered_map<std::string, bool> known;   // states reached by recorded draws
  };
  Track& track_of(at::Generator generator);
  std::vector<Track> tracks_;
};

// The state of a generator as a tensor that is the caller's own.
at::Tensor state_of(at::Generator generator);

// The operator that sets a generator (None: the default one of the CPU) to a state: `firesteel::set_generator_state`.
const c10::OperatorHandle& set_generator_state_op();

// The generator an operator with these arguments draws from.
at::Generator generator_for(c10::ArrayRef<c10::IValue> args, c10::Device device);

}  // namespace firesteel
