// The table of operators whose points are made of all points before them: cumsum, cumprod.
#include "fuse/row_rules.h"

namespace firesteel {
namespace {

// ATen adds up float32 in float64, and half-width floats in float32.
template <LoopOp op>
RowResults running(NodeBuilder& b, const Dim&) {
  if (!is_float(b.out()) && b.out() != Element::I64) return std::nullopt;
  const Element wide = b.out() == Element::F32 ? Element::F64 : computed_as(b.out());
  return {{b.op(op, b.kernel().cast(b.in(0), wide))}};
}

}  // namespace

const RowRules& running_rules() {
  static const RowRules rules = {
      {"aten.cumsum", {0, dims_by_name, running<LoopOp::RunSum>, {}, Walk::FromStart}},
      {"aten.cumprod", {0, dims_by_name, running<LoopOp::RunProduct>, {}, Walk::FromStart}},
      {"firesteel.cumsum_from_end", {0, dims_by_name, running<LoopOp::RunSum>, {}, Walk::FromEnd}},
  };
  return rules;
}

}  // namespace firesteel
