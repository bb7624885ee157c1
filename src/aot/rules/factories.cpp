// Shape rules of factories whose sizes are numbers but whose bounds may be tensors.
#include "aot/rules/rules.h"

#include <c10/core/DefaultDtype.h>

namespace firesteel {
namespace {

// linspace and logspace with tensor bounds: torch's kernels read the bounds even to find a shape.
template <size_t Dtype>
bool evenly_spaced(RuleCall& call) {
  at::ScalarType dtype = at::typeMetaToScalarType(c10::get_default_dtype());
  for (size_t i = 0; i < 2; ++i) {
    const bool complex = call.has_tensor(i) ? call.tensor(i).is_complex() : call.args[i].isComplexDouble();
    if (complex) dtype = c10::toComplexType(dtype);
  }
  if (!call.args[Dtype].isNone()) dtype = call.args[Dtype].toScalarType();
  call.give(meta_tensor({call.args[2].toInt()}, dtype));
  return true;
}

constexpr ShapeRuleEntry kRules[] = {
    {"aten::linspace.Tensor_Tensor", evenly_spaced<3>}, {"aten::linspace.Tensor_Scalar", evenly_spaced<3>},
    {"aten::linspace.Scalar_Tensor", evenly_spaced<3>}, {"aten::logspace.Tensor_Tensor", evenly_spaced<4>},
    {"aten::logspace.Tensor_Scalar", evenly_spaced<4>}, {"aten::logspace.Scalar_Tensor", evenly_spaced<4>},
};

}  // namespace

c10::ArrayRef<ShapeRuleEntry> factory_rules() { return kRules; }

}  // namespace firesteel
