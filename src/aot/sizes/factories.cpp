// Sizes of tensors that are made anew, and of copies.
#include "aot/sizes/sizes.h"

namespace firesteel {
namespace {

bool strided(SizeCall& call) {
  call.give_view({call.dims(0), call.dims(1), 0});
  return true;
}

bool new_strided(SizeCall& call) {
  call.give_view({call.dims(1), call.dims(2), 0});
  return true;
}

// A count of whole steps; floating-point ends are settled.
bool arange(SizeCall& call, const Dim& start, const Dim& end, int64_t step) {
  if (step == 0 || !call.decide(step > 0 ? Relation::le(start, end) : Relation::le(end, start))) return false;
  const Dim length = step > 0 ? end + Dim(-1) * start : start + Dim(-1) * end;
  const int64_t each = step > 0 ? step : -step;
  call.give({call.simple(Dim::make(DimOp::FloorDiv, call.simple(length + Dim(each - 1)), each))});
  return true;
}

bool is_whole(const c10::IValue& arg) { return arg.isInt() || arg.isSymInt(); }

bool arange_to(SizeCall& call) { return is_whole(call.args[0]) && arange(call, 0, call.dim(0), 1); }
bool arange_from(SizeCall& call) {
  return is_whole(call.args[0]) && is_whole(call.args[1]) && arange(call, call.dim(0), call.dim(1), 1);
}
bool arange_by(SizeCall& call) {
  return is_whole(call.args[0]) && is_whole(call.args[1]) && call.args[2].isInt() &&
         arange(call, call.dim(0), call.dim(1), call.args[2].toInt());
}

bool square(SizeCall& call) {
  call.give({call.dim(0), call.dim(0)});
  return true;
}
bool rectangle(SizeCall& call) {
  call.give({call.dim(0), call.dim(1)});
  return true;
}
bool vector(SizeCall& call) {
  call.give({call.dim(0)});
  return true;
}

bool no_sizes(SizeCall& call) {
  call.give({});
  return true;
}

bool as_given(SizeCall& call) {
  call.give_view({call.sizes(0), call.dims(1), 0});
  return true;
}

bool same_layout(SizeCall& call) {
  call.give_view({call.sizes(0), call.layout(0).strides, 0});
  return true;
}

constexpr SizeRuleEntry kRules[] = {
    {"aten::empty.memory_format", of_given_sizes<0>},
    {"aten::empty_strided", strided},
    {"aten::new_empty_strided", new_strided},
    {"aten::zeros", of_given_sizes<0>},
    {"aten::ones", of_given_sizes<0>},
    {"aten::full", of_given_sizes<0>},
    {"aten::rand", of_given_sizes<0>},
    {"aten::rand.generator", of_given_sizes<0>},
    {"aten::randn", of_given_sizes<0>},
    {"aten::randn.generator", of_given_sizes<0>},
    {"aten::randint", of_given_sizes<1>},
    {"aten::randint.low", of_given_sizes<2>},
    {"aten::randperm", vector},
    {"aten::new_empty", of_given_sizes<1>},
    {"aten::new_zeros", of_given_sizes<1>},
    {"aten::new_ones", of_given_sizes<1>},
    {"aten::new_full", of_given_sizes<1>},
    {"aten::empty_like", like<0>},
    {"aten::zeros_like", like<0>},
    {"aten::ones_like", like<0>},
    {"aten::full_like", like<0>},
    {"aten::rand_like", like<0>},
    {"aten::randn_like", like<0>},
    {"aten::randint_like", like<0>},
    {"aten::randint_like.low_dtype", like<0>},
    {"aten::bernoulli", like<0>},
    {"aten::bernoulli.p", like<0>},
    {"aten::normal_functional", like<0>},
    {"aten::uniform", like<0>},
    {"aten::clone", like<0>},
    {"aten::copy", like<0>},
    {"aten::_to_copy", like<0>},
    {"aten::lift_fresh_copy", like<0>},
    {"aten::contiguous", like<0>},
    {"aten::fill.Scalar", like<0>},
    {"aten::fill.Tensor", like<0>},
    {"aten::zero", like<0>},
    {"aten::arange", arange_to},
    {"aten::arange.start", arange_from},
    {"aten::arange.start_step", arange_by},
    {"aten::scalar_tensor", no_sizes},
    {"aten::eye", square},
    {"aten::eye.m", rectangle},
    {"firesteel::laid_out", as_given},
    {"firesteel::bernoulli", same_layout},
    {"firesteel::bernoulli.number", same_layout},
    {"firesteel::normal", same_layout},
};

}  // namespace

c10::ArrayRef<SizeRuleEntry> factory_sizes() { return kRules; }

}  // namespace firesteel
