// Sizes of matrix products and attention.
#include "aot/sizes/sizes.h"

namespace firesteel {
namespace {

// [.., m, k] times [.., k, n], where `a` and `b` stand among the arguments.
bool product(SizeCall& call, size_t a, size_t b, size_t rank) {
  const std::vector<Dim> left = call.sizes(a), right = call.sizes(b);
  if (left.size() != rank || right.size() != rank) return false;
  if (!call.equal(left[rank - 1], right[rank - 2])) return false;
  std::vector<Dim> sizes(left.begin(), left.end() - 1);
  for (size_t d = 0; d + 2 < rank; ++d) {
    if (!call.equal(left[d], right[d])) return false;
  }
  sizes.push_back(right[rank - 1]);
  call.give(std::move(sizes));
  return true;
}

bool mm(SizeCall& call) { return product(call, 0, 1, 2); }
bool bmm(SizeCall& call) { return product(call, 0, 1, 3); }

// What is added is broadcast to the product.
bool with_added(SizeCall& call, size_t rank) {
  if (!product(call, 1, 2, rank)) return false;
  const std::optional<std::vector<Dim>> sizes = broadcast(call, call.layouts[0].sizes, call.sizes(0));
  return sizes && sizes->size() == rank;
}
bool addmm(SizeCall& call) { return with_added(call, 2); }
bool baddbmm(SizeCall& call) { return with_added(call, 3); }

bool mv(SizeCall& call) {
  const std::vector<Dim> matrix = call.sizes(0), vector = call.sizes(1);
  if (matrix.size() != 2 || vector.size() != 1 || !call.equal(matrix[1], vector[0])) return false;
  call.give({matrix[0]});
  return true;
}

bool dot(SizeCall& call) {
  const std::vector<Dim> a = call.sizes(0), b = call.sizes(1);
  if (a.size() != 1 || b.size() != 1 || !call.equal(a[0], b[0])) return false;
  call.give({});
  return true;
}

bool flash_attention(SizeCall& call) {
  const std::vector<Dim> query = call.sizes(0), key = call.sizes(1), value = call.sizes(2);
  if (query.size() != 4 || key.size() != 4 || value.size() != 4) return false;
  for (size_t d : {0, 1, 2}) {
    if (!call.equal(key[d], value[d])) return false;
  }
  // Heads of the query may share those of the key.
  if (!call.equal(query[0], key[0]) || !query[1].is_number() || !key[1].is_number()) return false;
  call.give(query);
  call.give({query.begin(), query.end() - 1});
  return true;
}

bool flash_attention_backward(SizeCall& call) {
  for (size_t i : {1, 2, 3}) call.give(call.sizes(i));
  return true;
}

constexpr SizeRuleEntry kRules[] = {
    {"aten::mm", mm},
    {"aten::bmm", bmm},
    {"aten::addmm", addmm},
    {"aten::baddbmm", baddbmm},
    {"aten::mv", mv},
    {"aten::dot", dot},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", flash_attention},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", flash_attention_backward},
};

}  // namespace

c10::ArrayRef<SizeRuleEntry> linear_sizes() { return kRules; }

}  // namespace firesteel
