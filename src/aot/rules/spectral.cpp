// Shape rules of the CPU's Fourier transforms. Batch dimensions lie outside, in the order of the input's strides, then
// the transformed ones.
#include <algorithm>
#include <numeric>

#include <c10/core/ScalarTypeToTypeMeta.h>

#include "aot/rules/rules.h"

namespace firesteel {
namespace {

using Dims = std::vector<int64_t>;

void sort_by_stride(Dims::iterator begin, Dims::iterator end, const Dims& strides) {
  std::sort(begin, end, [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
}

// Strides of a transform's result: `dims` are those it works on, the innermost last.
Dims transformed_strides(const Dims& sizes, const Dims& input_strides, const Dims& dims) {
  Dims order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  auto batch_end = std::partition(order.begin(), order.end(),
                                  [&](int64_t d) { return std::find(dims.begin(), dims.end(), d) == dims.end(); });
  sort_by_stride(order.begin(), batch_end, input_strides);
  std::copy(dims.begin(), dims.end(), batch_end);
  Dims strides(sizes.size());
  int64_t step = 1;
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    strides[*d] = step;
    step *= sizes[*d];
  }
  return strides;
}

struct Transform {
  at::Tensor self;
  Dims dims, strides;

  // False: not a call of the CPU's kernels on dense data.
  bool read(RuleCall& call) {
    self = call.tensor(0);
    dims = call.args[1].toIntVector();
    strides = self.strides().vec();
    return call.device.is_cpu() && !dims.empty() && self.numel() > 0 &&
           std::all_of(dims.begin(), dims.end(), [&](int64_t d) { return d >= 0 && d < self.dim(); });
  }
};

bool complex_to_complex(RuleCall& call) {
  Transform transform;
  if (!transform.read(call)) return false;
  auto& [self, dims, strides] = transform;
  sort_by_stride(dims.begin(), dims.end(), strides);
  call.give(meta_tensor(self.sizes(), transformed_strides(self.sizes().vec(), strides, dims), self.scalar_type()));
  return true;
}

bool real_to_complex(RuleCall& call) {
  Transform transform;
  if (!transform.read(call)) return false;
  auto& [self, dims, strides] = transform;
  Dims sizes = self.sizes().vec();
  const bool onesided = call.args[3].toBool();
  if (onesided) sizes[dims.back()] = sizes[dims.back()] / 2 + 1;
  sort_by_stride(dims.begin(), dims.end() - 1, strides);
  call.give(meta_tensor(sizes, transformed_strides(sizes, strides, dims), c10::toComplexType(self.scalar_type())));
  return true;
}

// All dimensions but the last are transformed first, complex to complex.
bool complex_to_real(RuleCall& call) {
  Transform transform;
  if (!transform.read(call)) return false;
  auto& [self, dims, strides] = transform;
  Dims sizes = self.sizes().vec();
  const Dims last = {dims.back()};
  dims.pop_back();
  if (!dims.empty()) {
    sort_by_stride(dims.begin(), dims.end(), strides);
    strides = transformed_strides(sizes, strides, dims);
  }
  sizes[last[0]] = call.args[3].toInt();
  call.give(meta_tensor(sizes, transformed_strides(sizes, strides, last), c10::toRealValueType(self.scalar_type())));
  return true;
}

constexpr ShapeRuleEntry kRules[] = {
    {"aten::_fft_c2c", complex_to_complex},
    {"aten::_fft_r2c", real_to_complex},
    {"aten::_fft_c2r", complex_to_real},
};

}  // namespace

c10::ArrayRef<ShapeRuleEntry> spectral_rules() { return kRules; }

}  // namespace firesteel
