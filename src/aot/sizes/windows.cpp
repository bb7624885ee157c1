// Sizes of convolutions and poolings: windows that slide.
#include "aot/sizes/sizes.h"

namespace firesteel {
namespace {

// How often a window of `kernel` fits: Python's division, since a window that does not fit at all is an error.
Dim windows(SizeCall& call, const Dim& size, int64_t kernel, int64_t padding, int64_t stride, int64_t dilation) {
  const Dim room = size + Dim(2 * padding - dilation * (kernel - 1) - 1);
  return call.simple(Dim::make(DimOp::FloorDiv, call.simple(room), stride) + Dim(1));
}

int64_t at(const std::vector<int64_t>& list, size_t i) { return list.size() == 1 ? list[0] : list.at(i); }

std::vector<int64_t> settled(SizeCall& call, size_t i) {
  std::vector<int64_t> numbers;
  for (const Dim& dim : call.dims(i)) numbers.push_back(call.symbols.specialise(dim));
  return numbers;
}

// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
bool convolution(SizeCall& call) {
  const std::vector<Dim> self = call.sizes(0), weight = call.sizes(1);
  const std::vector<int64_t> stride = settled(call, 3), padding = settled(call, 4), dilation = settled(call, 5),
                             output_padding = settled(call, 7);
  const bool transposed = call.args[6].toBool();
  if (self.size() != weight.size() || self.size() < 3) return false;
  std::vector<int64_t> kernel;
  for (const Dim& size : weight) kernel.push_back(call.symbols.specialise(size));
  const int64_t groups = call.args[8].toInt();
  std::vector<Dim> sizes{self[0], Dim(transposed ? kernel[1] * groups : kernel[0])};
  for (size_t d = 2; d < self.size(); ++d) {
    const size_t i = d - 2;
    if (transposed) {
      const Dim grown = (self[d] + Dim(-1)) * Dim(at(stride, i));
      sizes.push_back(
          call.simple(grown + Dim(at(dilation, i) * (kernel[d] - 1) + 1 - 2 * at(padding, i) + at(output_padding, i))));
    } else {
      sizes.push_back(windows(call, self[d], kernel[d], at(padding, i), at(stride, i), at(dilation, i)));
    }
    if (!call.decide(Relation::lt(0, sizes.back()))) return false;
  }
  call.give(std::move(sizes));
  return true;
}

// The gradients that were asked for, of the input, the weight and the bias.
bool convolution_backward(SizeCall& call) {
  const auto wanted = call.args[10].toBoolList();
  if (wanted[0]) call.give(call.sizes(1));
  if (wanted[1]) call.give(call.sizes(2));
  if (wanted[2]) call.give({Dim(call.results.back().size(0))});
  return true;
}

// max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)
bool max_pool(SizeCall& call) {
  std::vector<Dim> sizes = call.sizes(0);
  const std::vector<int64_t> kernel = call.args[1].toIntVector(), padding = call.args[3].toIntVector(),
                             dilation = call.args[4].toIntVector();
  std::vector<int64_t> stride = call.args[2].toIntVector();
  if (stride.empty()) stride = kernel;
  if (call.args[5].toBool() || sizes.size() < 3) return false;
  for (size_t i = 0; i < 2; ++i) {
    Dim& size = sizes[sizes.size() - 2 + i];
    size = windows(call, size, at(kernel, i), at(padding, i), at(stride, i), at(dilation, i));
    if (!call.decide(Relation::lt(0, size))) return false;
  }
  call.give(sizes);
  call.give(sizes);
  return true;
}

// avg_pool2d(self, kernel_size, stride, padding, ceil_mode, …)
bool average_pool(SizeCall& call) {
  std::vector<Dim> sizes = call.sizes(0);
  const std::vector<int64_t> kernel = call.args[1].toIntVector(), padding = call.args[3].toIntVector();
  std::vector<int64_t> stride = call.args[2].toIntVector();
  if (stride.empty()) stride = kernel;
  if (call.args[4].toBool() || sizes.size() < 3) return false;
  for (size_t i = 0; i < 2; ++i) {
    Dim& size = sizes[sizes.size() - 2 + i];
    size = windows(call, size, at(kernel, i), at(padding, i), at(stride, i), 1);
    if (!call.decide(Relation::lt(0, size))) return false;
  }
  call.give(std::move(sizes));
  return true;
}

// The last dimensions become those that are given.
bool to_given_sizes(SizeCall& call) {
  std::vector<Dim> sizes = call.sizes(0);
  const std::vector<Dim> given = call.dims(1);
  if (given.size() + 1 > sizes.size()) return false;
  std::copy(given.begin(), given.end(), sizes.end() - static_cast<ptrdiff_t>(given.size()));
  for (size_t i = 0; i < call.results.size(); ++i) call.give(sizes);
  return true;
}

// upsample_…_backward(grad_output, output_size, input_size, …)
bool from_given_sizes(SizeCall& call) {
  call.give(call.dims(2));
  return true;
}

constexpr SizeRuleEntry kRules[] = {
    {"aten::convolution", convolution},
    {"aten::convolution_backward", convolution_backward},
    {"aten::max_pool2d_with_indices", max_pool},
    {"aten::max_pool2d_with_indices_backward", like<1>},
    {"aten::avg_pool2d", average_pool},
    {"aten::avg_pool2d_backward", like<1>},
    {"aten::_adaptive_avg_pool2d", to_given_sizes},
    {"aten::_adaptive_avg_pool2d_backward", like<1>},
    {"aten::upsample_nearest1d", to_given_sizes},
    {"aten::upsample_nearest2d", to_given_sizes},
    {"aten::upsample_bilinear2d", to_given_sizes},
    {"aten::upsample_bicubic2d", to_given_sizes},
    {"aten::upsample_nearest1d_backward", from_given_sizes},
    {"aten::upsample_nearest2d_backward", from_given_sizes},
    {"aten::upsample_bilinear2d_backward", from_given_sizes},
    {"aten::upsample_bicubic2d_backward", from_given_sizes},
};

}  // namespace

c10::ArrayRef<SizeRuleEntry> window_sizes() { return kRules; }

}  // namespace firesteel
