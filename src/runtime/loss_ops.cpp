// The parts of a loss that ATen has no operator for.
#include <ATen/ops/gather.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

namespace firesteel {
namespace {

// The targets themselves, once all are known to be classes or to be ignored.
at::Tensor checked_targets(const at::Tensor& target, int64_t classes, int64_t ignored) {
  const at::Tensor plain = target.contiguous();
  const int64_t* numbers = plain.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < plain.numel(); ++i) {
    const bool valid = (numbers[i] >= 0 && numbers[i] < classes) || numbers[i] == ignored;
    TORCH_CHECK_INDEX(valid, "Target ", numbers[i], " is out of bounds.");
  }
  return target;
}

// What each row has at its target, negated; 0 where that is ignored.
at::Tensor picked(const at::Tensor& rows, const at::Tensor& target, int64_t ignored) {
  const at::Tensor valid = target.ne(ignored);
  const at::Tensor found = rows.gather(1, at::where(valid, target, 0).unsqueeze(1)).squeeze(1);
  return at::where(valid, found.neg(), 0).to(rows.scalar_type());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(firesteel, library) {
  library.def("checked_targets(Tensor target, int classes, int ignored) -> Tensor",
              torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(checked_targets)));
  library.def("picked(Tensor rows, Tensor target, int ignored) -> Tensor",
              torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(picked)));
}

}  // namespace firesteel
