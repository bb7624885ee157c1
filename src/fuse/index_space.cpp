// Splitting, joining and reshaping the loops of an index space.
#include "fuse/index_space.h"

#include "fuse/size_math.h"

namespace firesteel {

LoopId LoopTable::add(Dim size) {
  loops_.push_back({std::move(size)});
  return static_cast<LoopId>(loops_.size() - 1);
}

Placement LoopTable::place(const std::vector<Dim>& sizes) {
  Placement placement(sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!is_number(sizes[d], 1)) placement[d].push_back(add(sizes[d]));
  }
  return placement;
}

void LoopTable::append_leaves(LoopId loop, std::vector<LoopId>& out) const {
  while (loops_[loop].joined >= 0) loop = loops_[loop].joined;
  if (loops_[loop].outer < 0) {
    out.push_back(loop);
    return;
  }
  append_leaves(loops_[loop].outer, out);
  append_leaves(loops_[loop].inner, out);
}

std::vector<LoopId> LoopTable::leaves(const std::vector<LoopId>& loops) const {
  std::vector<LoopId> result;
  for (LoopId loop : loops) append_leaves(loop, result);
  return result;
}

std::vector<LoopId> LoopTable::leaves(const Placement& placement) const {
  std::vector<LoopId> result;
  for (const auto& loops : placement) {
    for (LoopId loop : loops) append_leaves(loop, result);
  }
  return result;
}

bool LoopTable::same_sizes(const std::vector<LoopId>& a, const std::vector<LoopId>& b) const {
  const std::vector<LoopId> left = leaves(a), right = leaves(b);
  bool same = left.size() == right.size();
  for (size_t i = 0; same && i < left.size(); ++i) same = surely_equal(size(left[i]), size(right[i]));
  return same;
}

void LoopTable::reduce(const std::vector<LoopId>& loops) {
  for (LoopId leaf : leaves(loops)) loops_[leaf].reduced = true;
}

bool LoopTable::has_reduced(const Placement& placement) const {
  for (LoopId leaf : leaves(placement)) {
    if (is_reduced(leaf)) return true;
  }
  return false;
}

bool LoopTable::all_reduced(const std::vector<LoopId>& loops) const {
  for (LoopId leaf : leaves(loops)) {
    if (!is_reduced(leaf)) return false;
  }
  return true;
}

void LoopTable::split(LoopId leaf, Dim outer, Dim inner) {
  const LoopId outer_loop = add(std::move(outer)), inner_loop = add(std::move(inner));
  loops_[leaf].outer = outer_loop;
  loops_[leaf].inner = inner_loop;
  loops_[outer_loop].reduced = loops_[inner_loop].reduced = loops_[leaf].reduced;
}

std::optional<Placement> LoopTable::reshape(const Placement& placement, const std::vector<Dim>& sizes) {
  std::vector<LoopId> rest = leaves(placement);
  Placement result(sizes.size());
  // Innermost first: take loops until the dimension is full, cutting the last one where it is too long.
  for (size_t d = sizes.size(); d-- > 0;) {
    for (Dim missing = sizes[d]; !is_number(missing, 1);) {
      if (rest.empty()) return std::nullopt;
      LoopId loop = rest.back();
      rest.pop_back();
      const Dim length = size(loop);
      if (const std::optional<Dim> left = exact_quotient(missing, length)) {
        missing = *left;
      } else {
        const std::optional<Dim> outer = exact_quotient(length, missing);
        if (!outer) return std::nullopt;
        split(loop, *outer, missing);
        rest.push_back(loops_[loop].outer);
        loop = loops_[loop].inner;
        missing = 1;
      }
      result[d].insert(result[d].begin(), loop);
    }
  }
  if (!rest.empty()) return std::nullopt;
  return result;
}

// Splits both sides until they consist of loops of the same lengths.
bool LoopTable::align(const std::vector<LoopId>& a, const std::vector<LoopId>& b) {
  std::vector<LoopId> left = leaves(a), right = leaves(b);
  while (!left.empty() && !right.empty()) {
    const Dim x = size(left.back()), y = size(right.back());
    if (surely_equal(x, y)) {
      left.pop_back();
      right.pop_back();
      continue;
    }
    const std::optional<Dim> of_left = exact_quotient(x, y), of_right = exact_quotient(y, x);
    if (!of_left && !of_right) return false;
    std::vector<LoopId>& longer = of_left ? left : right;
    const LoopId cut = longer.back();
    split(cut, of_left ? *of_left : *of_right, of_left ? y : x);
    longer.back() = loops_[cut].outer;
    longer.push_back(loops_[cut].inner);
  }
  return left.empty() && right.empty();
}

bool LoopTable::join(const Placement& a, const Placement& b, bool both_reduce) {
  if (a.size() != b.size()) return false;
  for (size_t d = 0; d < a.size(); ++d) {
    if (!align(a[d], b[d])) return false;
  }
  const std::vector<LoopId> left = leaves(a), right = leaves(b);
  for (size_t i = 0; i < left.size() && both_reduce; ++i) {
    if (is_reduced(left[i]) != is_reduced(right[i])) return false;
  }
  for (size_t i = 0; i < left.size(); ++i) {
    if (left[i] == right[i]) continue;
    if (is_reduced(right[i])) loops_[left[i]].reduced = true;
    loops_[right[i]].joined = left[i];
  }
  return true;
}

}  // namespace firesteel
