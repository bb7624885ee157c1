// What compile(shapes_spec=...) says: which sizes of which arguments are open, and within which bounds.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace firesteel::capture {

struct SizeSpec {
  struct Size {
    bool open = false;
    int64_t least = 0, most = INT64_MAX;  // of one that is fixed: both, where it is to have this very size
  };
  // By the argument's name as errors spell it: `x`, `args[1]`, `batch['mask']`.
  std::unordered_map<std::string, std::vector<Size>> tensors;
  std::unordered_set<std::string> numbers;  // ints that change
};

}  // namespace firesteel::capture
