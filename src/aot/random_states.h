// Keeps random numbers in a traced function in step with eager's.
//
// Fakes draw nothing, so while tracing each recorded draw moves the generator by hand: a function that saves the
// generator's state, draws, restores it and draws again (activation checkpointing) shows the same state twice, and its
// second draw is the first one's value. A state that no recorded draw led to means the function seeds the generator
// itself, which a replay would not repeat: that is refused. All generators are put back when the trace ends.
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

  // The node that drew from this very state before with the same operator, or null: then record, and call `advance`.
  Node* repeated_draw(const at::Generator& generator, const c10::OperatorHandle& op);
  void advance(at::Generator generator, const c10::OperatorHandle& op, Node* node);

  // Notes the default generators as they are before the function runs, so that seeding is noticed at the end.
  void start();
  // True where some generator was left in a state that no draw led to.
  bool was_seeded() const;
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

// The generator an operator with these arguments draws from.
at::Generator generator_for(c10::ArrayRef<c10::IValue> args, c10::Device device);

}  // namespace firesteel
