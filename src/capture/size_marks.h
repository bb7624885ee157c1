// What a program has said about a tensor's sizes: mark_dynamic(), maybe_mark_dynamic(), mark_static(), mark_unbacked().
//
// The marks lie on the tensor object under the names that PyTorch uses, so that both ways of setting them count.
#pragma once

#include <map>
#include <set>
#include <string>

#include "python/py_ref.h"

namespace firesteel::capture {

class SizeMarks {
 public:
  struct Range {
    int64_t least = 2, most = INT64_MAX;
  };
  SizeMarks(PyObject* tensor, const std::string& name);
  // A dimension that is not there, or a size outside the range given for it; empty where all is well.
  const std::string& problem() const { return problem_; }

  const Range* dynamic(int32_t dim) const;
  bool may_be_dynamic(int32_t dim) const { return weak_.count(dim) != 0; }
  bool is_unbacked(int32_t dim) const { return unbacked_.count(dim) != 0; }
  // mark_static_address(guard=True): it is this very tensor at every call.
  bool is_fixed() const { return fixed_; }
  bool is_static(int32_t dim) const { return static_.count(dim) != 0; }

 private:
  std::map<int32_t, Range> dynamic_;
  std::set<int32_t> weak_, static_, unbacked_;
  bool fixed_ = false;
  std::string problem_;
};

}  // namespace firesteel::capture
