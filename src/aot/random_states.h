// Keeps random numbers in a traced function in step with eager's.
//
// Fakes draw nothing, so while tracing each recorded draw moves the generator by hand, and a generator that is not
// where the last node left it was moved by the function itself. Back to where an earlier node had left it: a node reads
// the state there, another sets it here. To anywhere else: the function seeded it, and the state becomes a constant of
// the graph. Where a backward pass draws again what the forward pass drew from the same state (activation
// checkpointing), the second draw is the first one's value. All generators are put back at the end.
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

  // How the generator came to where it is.
  struct Place {
    bool is_here = false;   // the last node left it here
    bool is_known = false;  // an earlier one did: `after`, or null for the beginning of the graph
    Node* after = nullptr;
  };
  Place place_of(const at::Generator& generator);
  // A node has been recorded that sets the generator to where it is now.
  void moved(const at::Generator& generator, Node* node);

  // The node that drew from this very state before with the same operator, or null.
  Node* earlier_draw(const at::Generator& generator, const c10::OperatorHandle& op);
  // A draw was recorded as that node; null: it is the value of an earlier one, and a replay draws nothing here.
  void advance(at::Generator generator, const c10::OperatorHandle& op, Node* node);

  // Notes the default generator before the function runs. One that was just seeded is moved to a state that no seed
  // gives: seeding it with that seed again is noticed too.
  void start();
  std::vector<at::Generator> generators() const;
  void restore();

 private:
  struct Track {
    at::Generator generator;
    at::Tensor initial;
    std::unordered_map<std::string, Node*> draws;  // "state bytes|operator" → node
    std::unordered_map<std::string, Node*> known;  // states that recorded nodes led to, and the first to do so
    std::string here;                              // where the last recorded node left it
  };
  Track& track_of(const at::Generator& generator);
  bool is_of_another_trace(const std::string& state) const;
  std::vector<Track> tracks_;
  bool is_alone_ = true;  // when it started, no other thread traced
  size_t number_ = 0;     // among the traces that are not inside another
};

// The state of a generator as a tensor that is the caller's own.
at::Tensor state_of(at::Generator generator);

// The operators that set a generator (None: the default one of the CPU) to a state, and read its state:
// `firesteel::set_generator_state`, `firesteel::get_generator_state`.
const c10::OperatorHandle& set_generator_state_op();
const c10::OperatorHandle& get_generator_state_op();

// The generator an operator with these arguments draws from.
at::Generator generator_for(c10::ArrayRef<c10::IValue> args, c10::Device device);

}  // namespace firesteel
