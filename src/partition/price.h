// The cost model of the minimum cut: what saving a value and computing a node again cost, in sixteenths of a byte.
//
//   saving a value of b bytes                                   | bytes
//   ------------------------------------------------------------+----------------------------------------------
//   an input that nobody mutates (parameter, captured tensor)   | 0
//   a result that a backward node reads: its caller holds it    | b/16 + 64
//   in memory anyway: a result; made or read by a library call; | b + 64
//   made by a reduction; read after a library call that comes   |
//   between (the residual stream of a network)                  |
//   else: fusion would have kept it in registers                | 2b + 64
//   a mutated input: the forward copies it                      | 2b + 64
//   a number (handed over in a tensor)                          | 1024
//
//   computing a node again, b bytes out, at distance d          | bytes
//   ------------------------------------------------------------+----------------------------------------------
//   free: views, sizes                                          | 0
//   cheap: pointwise, casts, fills                              | (b/8 + 64) (1 + d/8)
//     … whose result a library call of the backward reads       |   + b/2: it has to be written out
//   moderate: reductions, norms, softmax                        | (b + bytes read + 64) (1 + d/8)
//   not needed by the forward's results: it runs once anyway    | 0
//   expensive, random, writing, with side effects               | never
//
// The distance of a node is how many computed-again nodes stand between it and the backward node that wants it: a long
// chain grows dearer with every link, so about ten pointwise operators are the most that one saved value gives way to.
#pragma once

#include "partition/joint_facts.h"

namespace firesteel {

class Prices {
 public:
  explicit Prices(const JointFacts& facts);

  bool may_recompute(int32_t node) const;
  int64_t save(int32_t value) const;
  int64_t recompute(int32_t node) const;

 private:
  void find_in_memory();
  void find_distances();
  int64_t bytes(int32_t value) const { return bytes_[value]; }

  const JointFacts& facts_;
  std::vector<int64_t> bytes_;         // one a value
  std::vector<char> in_memory_;        // by root: the forward writes it to memory whatever we choose
  std::vector<char> read_late_;        // by root: a late node reads it
  std::vector<char> read_by_library_;  // by root: a late library call reads it
  std::vector<int32_t> distance_;      // one a node
};

}  // namespace firesteel
