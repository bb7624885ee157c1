// Backward functions written in Python: traced where that is possible, else called as they are.
#pragma once

#include <memory>
#include <string>

namespace torch::autograd {
struct Node;
}

namespace firesteel::python {

// Sees what the Python of a traced backward does to the program's objects.
class BackwardFollower {
 public:
  virtual ~BackwardFollower() = default;
  virtual void meet() = 0;                                       // before the first line of a function
  virtual size_t writes() const = 0;                             // so far
  virtual void give_up_for_writes(const std::string& name) = 0;  // leaves a Python error
  // True where a function did what no graph can hold, which raised an error: following goes on as if it had not, unless
  // the second is called.
  virtual bool forgive() = 0;
  virtual void insist() = 0;
};

// For a node that is about to run in a traced backward: where it reads data, or does what the follower (which may be
// null, or gone) cannot follow, one opaque call is recorded instead, which gives the function at run time what it was
// given here. For those whose context holds tensors and constants only.
void watch_backward(torch::autograd::Node& node, std::weak_ptr<BackwardFollower> follower = {});

}  // namespace firesteel::python
