// The table of operator classes. ATen's own facts (view schemas, the pointwise tag) fill in what it does not list.
#include "partition/op_class.h"

#include <unordered_map>

#include <ATen/core/enum_tag.h>

namespace firesteel {
namespace {

// Names without namespace and overload. Only what ATen's facts leave out, or get wrong for our purpose (`max` is tagged
// pointwise for its binary overload, and `equal` although it reads both tensors whole).
// clang-format off
#define FIRESTEEL_FREE_OPS(X) \
  X(sym_size) X(sym_stride) X(sym_numel) X(sym_storage_offset)

#define FIRESTEEL_CHEAP_OPS(X)                                                                                      \
  X(_to_copy) X(arange) X(constant_pad_nd) X(copy) X(cat) X(fill) X(flip) X(full) X(full_like) X(new_full)          \
  X(new_ones) X(new_zeros) X(ones) X(ones_like) X(repeat) X(scalar_tensor) X(select_scatter) X(slice_scatter)       \
  X(stack) X(zeros) X(zeros_like) X(lift_fresh_copy) X(tril) X(triu) X(glu) X(hardswish) X(log_sigmoid_forward)     \
  X(_prelu_kernel) X(select_backward) X(slice_backward) X(elu_backward) X(hardtanh_backward) X(hardswish_backward)  \
  X(leaky_relu_backward) X(mish_backward) X(softplus_backward) X(glu_backward) X(mse_loss_backward)

#define FIRESTEEL_MODERATE_OPS(X)                                                                                   \
  X(all) X(any) X(amax) X(amin) X(aminmax) X(argmax) X(argmin) X(count_nonzero) X(equal) X(linalg_vector_norm)      \
  X(logsumexp) X(max) X(mean) X(min) X(nansum) X(norm) X(prod) X(std) X(std_mean) X(sum) X(var) X(var_mean)         \
  X(_softmax) X(_log_softmax) X(_softmax_backward_data) X(_log_softmax_backward_data) X(native_layer_norm)          \
  X(native_group_norm) X(_fused_rms_norm) X(_native_batch_norm_legit_no_training) X(cumsum) X(cumprod)              \
  X(avg_pool2d) X(_adaptive_avg_pool2d) X(mse_loss) X(_local_scalar_dense)
// clang-format on

const std::unordered_map<std::string_view, OpClass>& listed_ops() {
  static const std::unordered_map<std::string_view, OpClass> table = {
#define X(name) {#name, OpClass::Free},
      FIRESTEEL_FREE_OPS(X)
#undef X
#define X(name) {#name, OpClass::Cheap},
          FIRESTEEL_CHEAP_OPS(X)
#undef X
#define X(name) {#name, OpClass::Moderate},
              FIRESTEEL_MODERATE_OPS(X)
#undef X
  };
  return table;
}

}  // namespace

const char* op_class_text(OpClass op_class) {
  static constexpr const char* texts[] = {
#define X(name, text, meaning) text,
      FIRESTEEL_OP_CLASSES(X)
#undef X
  };
  return texts[static_cast<size_t>(op_class)];
}

OpClass classify_op(const Op& op) {
  if (!op.is_aten()) return OpClass::Expensive;
  constexpr std::string_view aten = "aten::";
  std::string_view name = op.aten->operator_name().name;
  if (name.substr(0, aten.size()) == aten) {
    auto listed = listed_ops().find(name.substr(aten.size()));
    if (listed != listed_ops().end()) return listed->second;
  }
  if (op_facts(*op.aten).is_view) return OpClass::Free;
  if (op.aten->hasTag(at::Tag::pointwise)) return OpClass::Cheap;
  return OpClass::Expensive;
}

}  // namespace firesteel
