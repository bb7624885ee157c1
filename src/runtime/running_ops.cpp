// Sums that run from the end, by ATen: for calls that no kernel serves.
#include <ATen/ops/cumsum.h>
#include <ATen/ops/flip.h>
#include <torch/library.h>

namespace firesteel {
namespace {

at::Tensor cumsum_from_end(const at::Tensor& self, int64_t dim) { return self.flip(dim).cumsum(dim).flip(dim); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(firesteel, library) {
  library.def("cumsum_from_end(Tensor self, int dim) -> Tensor",
              torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(cumsum_from_end)));
}

}  // namespace firesteel
