// Sizes of reductions, sorts and scans.
#include "aot/sizes/sizes.h"

namespace firesteel {
namespace {

// All results have the argument's sizes without `dims`, or with 1 in their place; no dims: all.
bool reduce(SizeCall& call, const std::vector<int64_t>& dims, bool keep) {
  const std::vector<Dim> self = call.sizes(0);
  const auto rank = static_cast<int64_t>(self.size());
  std::vector<bool> reduced(rank, dims.empty());
  for (int64_t dim : dims) {
    if (rank > 0) reduced[c10::maybe_wrap_dim(dim, rank)] = true;
  }
  std::vector<Dim> sizes;
  for (int64_t d = 0; d < rank; ++d) {
    if (!reduced[d]) sizes.push_back(self[d]);
    if (reduced[d] && keep) sizes.emplace_back(1);
  }
  for (size_t i = 0; i < call.results.size(); ++i) call.give(sizes);
  return true;
}

std::vector<int64_t> dims_at(const SizeCall& call, size_t i) {
  if (call.args[i].isNone()) return {};
  return call.args[i].isInt() ? std::vector<int64_t>{call.args[i].toInt()} : call.args[i].toIntVector();
}

bool to_scalar(SizeCall& call) {
  for (size_t i = 0; i < call.results.size(); ++i) call.give({});
  return true;
}

// Where the dims and `keepdim` stand among the arguments.
template <size_t dims, size_t keep>
bool over(SizeCall& call) {
  return reduce(call, dims_at(call, dims), call.args[keep].toBool());
}

bool top_k(SizeCall& call) {
  std::vector<Dim> sizes = call.sizes(0);
  if (sizes.empty()) return false;
  const int64_t dim = call.axis(2, static_cast<int64_t>(sizes.size()));
  const Dim count = call.dim(1);
  if (!call.decide(Relation::le(count, sizes[dim]))) return false;
  sizes[dim] = count;
  call.give(sizes);
  call.give(sizes);
  return true;
}

constexpr SizeRuleEntry kRules[] = {
    {"aten::sum", to_scalar},
    {"aten::mean", to_scalar},
    {"aten::prod", to_scalar},
    {"aten::max", to_scalar},
    {"aten::min", to_scalar},
    {"aten::any", to_scalar},
    {"aten::all", to_scalar},
    {"aten::median", to_scalar},
    {"aten::sum.dim_IntList", over<1, 2>},
    {"aten::mean.dim", over<1, 2>},
    {"aten::prod.dim_int", over<1, 2>},
    {"aten::amax", over<1, 2>},
    {"aten::amin", over<1, 2>},
    {"aten::logsumexp", over<1, 2>},
    {"aten::any.dim", over<1, 2>},
    {"aten::any.dims", over<1, 2>},
    {"aten::all.dim", over<1, 2>},
    {"aten::all.dims", over<1, 2>},
    {"aten::max.dim", over<1, 2>},
    {"aten::min.dim", over<1, 2>},
    {"aten::argmax", over<1, 2>},
    {"aten::argmin", over<1, 2>},
    {"aten::median.dim", over<1, 2>},
    {"aten::var.correction", over<1, 3>},
    {"aten::std.correction", over<1, 3>},
    {"aten::var_mean.correction", over<1, 3>},
    {"aten::std_mean.correction", over<1, 3>},
    {"aten::linalg_vector_norm", over<2, 3>},
    {"aten::topk", top_k},
    {"aten::sort", like<0>},
    {"aten::sort.stable", like<0>},
    {"aten::cumsum", like<0>},
    {"aten::cumprod", like<0>},
    {"aten::cummax", like<0>},
    {"aten::cummin", like<0>},
    {"aten::logcumsumexp", like<0>},
};

}  // namespace

c10::ArrayRef<SizeRuleEntry> reduction_sizes() { return kRules; }

}  // namespace firesteel
