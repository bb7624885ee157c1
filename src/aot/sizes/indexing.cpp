// Sizes of lookups, joins, pads and writes to parts of a tensor.
#include <algorithm>

#include "aot/sizes/sizes.h"

namespace firesteel {
namespace {

bool embedding(SizeCall& call) {
  std::vector<Dim> sizes = call.sizes(1);
  sizes.push_back(call.sizes(0).at(1));
  call.give(std::move(sizes));
  return true;
}

bool embedding_backward(SizeCall& call) {
  call.give({call.dim(2), call.sizes(0).back()});
  return true;
}

bool index_select(SizeCall& call) {
  std::vector<Dim> sizes = call.sizes(0);
  const std::vector<Dim> index = call.sizes(2);
  if (sizes.empty() || index.size() > 1) return false;
  sizes[call.axis(1, static_cast<int64_t>(sizes.size()))] = index.empty() ? Dim(1) : index[0];
  call.give(std::move(sizes));
  return true;
}

// x[:, i, j]: the index tensors together take the place of the dimensions they index, or stand first where they are
// apart.
bool index(SizeCall& call) {
  const std::vector<Dim> self = call.sizes(0);
  std::optional<std::vector<Dim>> together = std::vector<Dim>();
  std::vector<size_t> indexed;
  const auto given = call.args[1].toOptionalTensorVector();
  for (size_t i = 0; i < given.size() && together; ++i) {
    if (!given[i] || !given[i]->defined()) continue;
    if (given[i]->scalar_type() == at::kBool || given[i]->scalar_type() == at::kByte) return false;
    indexed.push_back(i);
    together = broadcast(call, std::move(*together), layout_of(*given[i]).sizes);
  }
  if (!together || indexed.empty()) return false;
  const bool adjacent = indexed.back() - indexed.front() + 1 == indexed.size();
  const size_t place = adjacent ? indexed.front() : 0;
  std::vector<Dim> sizes;
  for (size_t d = 0; d <= self.size(); ++d) {
    if (d == place) sizes.insert(sizes.end(), together->begin(), together->end());
    if (d < self.size() && std::find(indexed.begin(), indexed.end(), d) == indexed.end()) sizes.push_back(self[d]);
  }
  call.give(std::move(sizes));
  return true;
}

bool cat(SizeCall& call) {
  const std::vector<at::Tensor> tensors = call.args[0].toTensorVector();
  std::vector<Dim> sizes;
  int64_t dim = -1;
  for (const at::Tensor& tensor : tensors) {
    const std::vector<Dim> part = layout_of(tensor).sizes;
    if (part.size() == 1 && part[0] == Dim(0)) continue;  // an empty list of no dimensions joins anything
    if (dim < 0) {
      dim = call.axis(1, static_cast<int64_t>(part.size()));
      sizes = part;
      continue;
    }
    if (part.size() != sizes.size()) return false;
    for (size_t d = 0; d < part.size(); ++d) {
      if (static_cast<int64_t>(d) == dim) {
        sizes[d] = call.simple(sizes[d] + part[d]);
      } else if (!call.equal(sizes[d], part[d])) {
        return false;
      }
    }
  }
  call.give(std::move(sizes));
  return dim >= 0;
}

bool stack(SizeCall& call) {
  const std::vector<at::Tensor> tensors = call.args[0].toTensorVector();
  std::vector<Dim> sizes = layout_of(tensors.at(0)).sizes;
  for (const at::Tensor& tensor : tensors) {
    const std::vector<Dim> part = layout_of(tensor).sizes;
    if (part.size() != sizes.size()) return false;
    for (size_t d = 0; d < part.size(); ++d) {
      if (!call.equal(sizes[d], part[d])) return false;
    }
  }
  const int64_t dim = call.axis(1, static_cast<int64_t>(sizes.size()) + 1);
  sizes.insert(sizes.begin() + dim, Dim(static_cast<int64_t>(tensors.size())));
  call.give(std::move(sizes));
  return true;
}

bool pad(SizeCall& call) {
  std::vector<Dim> sizes = call.sizes(0);
  const std::vector<Dim> by = call.dims(1);
  if (by.size() > 2 * sizes.size()) return false;
  for (size_t i = 0; i + 1 < by.size(); i += 2) {
    Dim& size = sizes[sizes.size() - 1 - i / 2];
    size = call.simple(size + by[i] + by[i + 1]);
    if (!call.decide(Relation::le(0, size))) return false;
  }
  call.give(std::move(sizes));
  return true;
}

bool repeat(SizeCall& call) {
  std::vector<Dim> sizes = call.sizes(0);
  const std::vector<Dim> times = call.dims(1);
  if (times.size() < sizes.size()) return false;
  sizes.insert(sizes.begin(), times.size() - sizes.size(), Dim(1));
  for (size_t d = 0; d < sizes.size(); ++d) sizes[d] = call.simple(sizes[d] * times[d]);
  call.give(std::move(sizes));
  return true;
}

// The index tells the sizes.
bool gather(SizeCall& call) {
  call.give(call.sizes(2));
  return true;
}

constexpr SizeRuleEntry kRules[] = {
    {"aten::embedding", embedding},
    {"aten::embedding_dense_backward", embedding_backward},
    {"aten::index_select", index_select},
    {"aten::index.Tensor", index},
    {"aten::gather", gather},
    {"aten::cat", cat},
    {"aten::stack", stack},
    {"aten::constant_pad_nd", pad},
    {"aten::repeat", repeat},
    {"aten::index_put", like<0>},
    {"aten::index_add", like<0>},
    {"aten::index_copy", like<0>},
    {"aten::index_fill.int_Scalar", like<0>},
    {"aten::scatter.src", like<0>},
    {"aten::scatter.value", like<0>},
    {"aten::scatter_add", like<0>},
    {"aten::scatter_reduce.two", like<0>},
    {"aten::slice_scatter", like<0>},
    {"aten::select_scatter", like<0>},
    {"aten::as_strided_scatter", like<0>},
    {"aten::diagonal_scatter", like<0>},
    {"aten::masked_scatter", like<0>},
    {"aten::select_backward", of_given_sizes<1>},
    {"aten::slice_backward", of_given_sizes<1>},
    {"aten::diagonal_backward", of_given_sizes<1>},
    {"aten::unfold_backward", of_given_sizes<1>},
    {"aten::tril", like<0>},
    {"aten::triu", like<0>},
    {"aten::flip", like<0>},
    {"aten::roll", like<0>},
};

}  // namespace

c10::ArrayRef<SizeRuleEntry> indexing_sizes() { return kRules; }

}  // namespace firesteel
