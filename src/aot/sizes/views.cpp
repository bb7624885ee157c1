// Sizes, strides and offsets of views.
#include <algorithm>

#include "aot/sizes/sizes.h"
#include "aot/symbolic_layouts.h"

namespace firesteel {
namespace {

bool same_view(SizeCall& call) {
  call.give_view(call.layout(0));
  return true;
}

// A size of -1 is what is left.
bool view(SizeCall& call) {
  const SymbolicLayout self = call.layout(0);
  std::vector<Dim> sizes = call.dims(1);
  const Dim all = elements(self.sizes);
  Dim given = 1;
  Dim* open = nullptr;
  for (Dim& size : sizes) {
    if (size == Dim(-1)) {
      open = &size;
    } else {
      given = given * size;
    }
  }
  if (open) {
    if (call.decide(Relation::eq(given, 0))) return false;
    if (!call.equal(Dim::make(DimOp::Mod, call.simple(all), call.simple(given)), 0)) return false;
    *open = call.simple(Dim::make(DimOp::FloorDiv, call.simple(all), call.simple(given)));
  } else if (!call.equal(call.simple(given), call.simple(all))) {
    return false;
  }
  for (Dim& size : sizes) size = call.simple(size);
  std::optional<std::vector<Dim>> strides = view_strides(call.symbols, self, sizes);
  if (!strides) return false;
  call.give_view({std::move(sizes), std::move(*strides), self.offset});
  return true;
}

// What view() gives, as memory of its own.
bool copied_view(SizeCall& call) {
  if (!view(call)) return false;
  call.layouts.back().strides.clear();
  call.layouts.back().offset = 0;
  return true;
}

void swap(SymbolicLayout& layout, int64_t a, int64_t b) {
  std::swap(layout.sizes[a], layout.sizes[b]);
  std::swap(layout.strides[a], layout.strides[b]);
}

bool transpose(SizeCall& call) {
  SymbolicLayout self = call.layout(0);
  const auto rank = static_cast<int64_t>(self.sizes.size());
  swap(self, call.axis(1, rank), call.axis(2, rank));
  call.give_view(std::move(self));
  return true;
}

bool t(SizeCall& call) {
  SymbolicLayout self = call.layout(0);
  if (self.sizes.size() == 2) swap(self, 0, 1);
  call.give_view(std::move(self));
  return true;
}

bool permute(SizeCall& call) {
  const SymbolicLayout self = call.layout(0);
  SymbolicLayout view{{}, {}, self.offset};
  for (int64_t dim : call.args[1].toIntVector()) {
    dim = c10::maybe_wrap_dim(dim, static_cast<int64_t>(self.sizes.size()));
    view.sizes.push_back(self.sizes[dim]);
    view.strides.push_back(self.strides[dim]);
  }
  call.give_view(std::move(view));
  return true;
}

bool unsqueeze(SizeCall& call) {
  SymbolicLayout self = call.layout(0);
  const auto rank = static_cast<int64_t>(self.sizes.size());
  const int64_t dim = call.axis(1, rank + 1);
  const Dim stride = dim < rank ? call.simple(self.sizes[dim] * self.strides[dim]) : Dim(1);
  self.sizes.insert(self.sizes.begin() + dim, Dim(1));
  self.strides.insert(self.strides.begin() + dim, stride);
  call.give_view(std::move(self));
  return true;
}

bool squeeze(SizeCall& call) {
  const SymbolicLayout self = call.layout(0);
  const auto rank = static_cast<int64_t>(self.sizes.size());
  std::vector<bool> asked(rank, call.args.size() == 1);
  if (call.args.size() > 1) {
    const std::vector<int64_t> dims =
        call.args[1].isInt() ? std::vector<int64_t>{call.args[1].toInt()} : call.args[1].toIntVector();
    for (int64_t dim : dims) {
      if (rank > 0) asked[c10::maybe_wrap_dim(dim, rank)] = true;
    }
  }
  SymbolicLayout view{{}, {}, self.offset};
  for (int64_t d = 0; d < rank; ++d) {
    if (asked[d] && call.decide(Relation::eq(self.sizes[d], 1))) continue;
    view.sizes.push_back(self.sizes[d]);
    view.strides.push_back(self.strides[d]);
  }
  call.give_view(std::move(view));
  return true;
}

bool expand(SizeCall& call) {
  const SymbolicLayout self = call.layout(0);
  std::vector<Dim> sizes = call.dims(1);
  std::vector<Dim> strides(sizes.size());
  const auto added = static_cast<int64_t>(sizes.size() - self.sizes.size());
  for (auto d = static_cast<int64_t>(sizes.size()) - 1; d >= 0; --d) {
    const bool is_new = d < added;
    const Dim old = is_new ? Dim(1) : self.sizes[d - added];
    if (sizes[d] == Dim(-1)) sizes[d] = old;
    strides[d] = is_new ? 0 : self.strides[d - added];
    if (old == sizes[d] || !call.decide(Relation::eq(old, 1))) {
      if (!call.equal(old, sizes[d])) return false;
      if (is_new) strides[d] = d + 1 < static_cast<int64_t>(sizes.size()) ? sizes[d + 1] * strides[d + 1] : Dim(1);
    } else if (!call.symbols.is_one(sizes[d])) {
      strides[d] = 0;
    }
  }
  for (Dim& stride : strides) stride = call.simple(stride);
  call.give_view({std::move(sizes), std::move(strides), self.offset});
  return true;
}

// A start or end as Python counts it: from the end where negative, and never outside.
Dim bound(SizeCall& call, size_t i, const Dim& size, bool is_end) {
  if (call.args[i].isNone()) return is_end ? size : Dim(0);
  Dim at = call.dim(i);
  if (at.is_number() && at.number() == INT64_MAX) return size;
  if (call.decide(Relation::lt(at, 0))) at = call.simple(at + size);
  if (call.decide(Relation::lt(at, 0))) return 0;
  return call.decide(Relation::le(at, size)) ? at : size;
}

bool slice(SizeCall& call) {
  SymbolicLayout self = call.layout(0);
  const int64_t dim = call.axis(1, static_cast<int64_t>(self.sizes.size()));
  const Dim size = self.sizes[dim], step = call.dim(4);
  if (!step.is_number() || step.number() < 1) return false;
  const Dim start = bound(call, 2, size, false);
  Dim end = bound(call, 3, size, true);
  if (call.decide(Relation::lt(end, start))) end = start;
  Dim length = call.simple(end + Dim(-1) * start);
  if (step != Dim(1)) length = call.simple(Dim::make(DimOp::FloorDiv, length + step + Dim(-1), step));
  self.offset = call.simple(self.offset + start * self.strides[dim]);
  self.sizes[dim] = length;
  self.strides[dim] = call.simple(self.strides[dim] * step);
  call.give_view(std::move(self));
  return true;
}

bool select(SizeCall& call) {
  SymbolicLayout self = call.layout(0);
  const int64_t dim = call.axis(1, static_cast<int64_t>(self.sizes.size()));
  const Dim size = self.sizes[dim];
  Dim index = call.dim(2);
  if (call.decide(Relation::lt(index, 0))) index = call.simple(index + size);
  // The index must stay inside for all sizes that the graph serves.
  if (!call.decide(Relation::le(0, index)) || !call.decide(Relation::lt(index, size))) return false;
  self.offset = call.simple(self.offset + index * self.strides[dim]);
  self.sizes.erase(self.sizes.begin() + dim);
  self.strides.erase(self.strides.begin() + dim);
  call.give_view(std::move(self));
  return true;
}

// Parts of one dimension, one after the other.
bool parts(SizeCall& call, int64_t dim, const std::vector<Dim>& lengths) {
  const SymbolicLayout self = call.layout(0);
  Dim start = 0;
  for (const Dim& length : lengths) {
    SymbolicLayout part = self;
    part.sizes[dim] = length;
    part.offset = call.simple(self.offset + start * self.strides[dim]);
    start = call.simple(start + length);
    call.give_view(std::move(part));
  }
  return call.equal(start, self.sizes[dim]);
}

bool split(SizeCall& call) {
  const SymbolicLayout self = call.layout(0);
  const int64_t dim = call.axis(2, static_cast<int64_t>(self.sizes.size()));
  const Dim each = call.dim(1), size = self.sizes[dim];
  const auto count = static_cast<int64_t>(call.results.size());
  if (count < 1) return false;
  // As many parts as in the traced call: all but the last are full, and the last is not empty.
  const Dim before_last = call.simple(each * Dim(count - 1));
  if (!call.decide(Relation::lt(before_last, size)) || !call.decide(Relation::le(size, call.simple(each * Dim(count)))))
    return false;
  std::vector<Dim> lengths(count, each);
  lengths.back() = call.simple(size + Dim(-1) * before_last);
  return parts(call, dim, lengths);
}

bool split_with_sizes(SizeCall& call) { return parts(call, call.axis(2, call.rank(0)), call.dims(1)); }

bool unbind(SizeCall& call) {
  SymbolicLayout self = call.layout(0);
  const int64_t dim = call.axis(1, static_cast<int64_t>(self.sizes.size()));
  const int64_t count = call.symbols.specialise(self.sizes[dim]);
  const Dim stride = self.strides[dim];
  self.sizes.erase(self.sizes.begin() + dim);
  self.strides.erase(self.strides.begin() + dim);
  const Dim first = self.offset;
  for (int64_t i = 0; i < count; ++i) {
    self.offset = call.simple(first + Dim(i) * stride);
    call.give_view(self);
  }
  return true;
}

bool as_strided(SizeCall& call) {
  const Dim offset = call.args[3].isNone() ? call.layout(0).offset : call.dim(3);
  call.give_view({call.dims(1), call.dims(2), offset});
  return true;
}

bool unfold(SizeCall& call) {
  SymbolicLayout self = call.layout(0);
  if (self.sizes.empty()) return false;
  const int64_t dim = call.axis(1, static_cast<int64_t>(self.sizes.size()));
  const int64_t size = call.args[2].toInt(), step = call.args[3].toInt();
  const Dim old = self.sizes[dim];
  if (!call.decide(Relation::le(size, old))) return false;
  self.sizes[dim] = call.simple(Dim::make(DimOp::FloorDiv, old + Dim(-size), step) + Dim(1));
  self.sizes.emplace_back(size);
  self.strides.push_back(self.strides[dim]);
  self.strides[dim] = call.simple(self.strides[dim] * Dim(step));
  call.give_view(std::move(self));
  return true;
}

bool diagonal(SizeCall& call) {
  SymbolicLayout self = call.layout(0);
  const auto rank = static_cast<int64_t>(self.sizes.size());
  const int64_t a = call.axis(2, rank), b = call.axis(3, rank), shift = call.args[1].toInt();
  if (shift != 0 || a == b) return false;
  const bool first_is_less = call.decide(Relation::le(self.sizes[a], self.sizes[b]));
  const Dim size = first_is_less ? self.sizes[a] : self.sizes[b];
  const Dim stride = call.simple(self.strides[a] + self.strides[b]);
  for (int64_t dim : {std::max(a, b), std::min(a, b)}) {
    self.sizes.erase(self.sizes.begin() + dim);
    self.strides.erase(self.strides.begin() + dim);
  }
  self.sizes.push_back(size);
  self.strides.push_back(stride);
  call.give_view(std::move(self));
  return true;
}

constexpr SizeRuleEntry kRules[] = {
    {"aten::alias", same_view},
    {"aten::detach", same_view},
    {"aten::lift_fresh", same_view},
    {"aten::view", view},
    {"aten::_unsafe_view", copied_view},
    {"aten::view_copy", copied_view},
    {"aten::_reshape_alias", view},
    {"aten::transpose.int", transpose},
    {"aten::t", t},
    {"aten::permute", permute},
    {"aten::unsqueeze", unsqueeze},
    {"aten::squeeze", squeeze},
    {"aten::squeeze.dim", squeeze},
    {"aten::squeeze.dims", squeeze},
    {"aten::expand", expand},
    {"aten::slice.Tensor", slice},
    {"aten::select.int", select},
    {"aten::split.Tensor", split},
    {"aten::split_with_sizes", split_with_sizes},
    {"aten::unbind.int", unbind},
    {"aten::as_strided", as_strided},
    {"aten::unfold", unfold},
    {"aten::diagonal", diagonal},
};

}  // namespace

c10::ArrayRef<SizeRuleEntry> view_sizes() { return kRules; }

}  // namespace firesteel
