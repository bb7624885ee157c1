// Layouts kept through writes: see written_layouts.h.
#include "aot/written_layouts.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include "aot/ivalue_tensors.h"

namespace firesteel {
namespace {

namespace functional = at::functionalization;

functional::FunctionalStorageImpl& memory_of(const at::Tensor& wrapper) {
  return static_cast<functional::FunctionalStorageImpl&>(*wrapper.storage().unsafeGetStorageImpl());
}

at::Tensor laid_out(const at::Tensor& self, c10::SymIntArrayRef strides) {
  return at::empty_strided_symint(self.sym_sizes(), strides, self.options()).copy_(self);
}

const c10::OperatorHandle& laid_out_op() {
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("firesteel::laid_out", "");
  return op;
}

}  // namespace

WrittenLayouts::WrittenLayouts(const OpPlan& plan, c10::ArrayRef<c10::IValue> args) {
  for (uint8_t i : plan.written_arguments) {
    each_tensor(args[i], [&](const at::Tensor& tensor) {
      if (!functional::impl::isFunctionalTensor(tensor)) return;
      const at::Tensor& base = memory_of(tensor).base();
      if (at::has_internal_overlap(traced_meta(base)) != at::MemOverlap::No) return;
      written_.push_back({tensor, layout_of(base)});
    });
  }
}

void WrittenLayouts::restore() const {
  for (const Written& written : written_) {
    if (!functional::impl::isFunctionalTensor(written.tensor)) continue;  // set_data gave it to another
    functional::impl::sync(written.tensor);
    functional::FunctionalStorageImpl& memory = memory_of(written.tensor);
    const at::Tensor& base = memory.base();
    const SymbolicLayout now = layout_of(base);
    if (now.sizes != written.layout.sizes || now.strides == written.layout.strides || traced_meta(base).numel() < 2)
      continue;
    at::Tensor kept;
    {
      at::AutoDispatchSkipFunctionalize below;
      std::vector<c10::SymInt> strides;
      for (const Dim& stride : written.layout.strides) strides.push_back(sym_int_for(base, stride));
      kept = laid_out_op().typed<at::Tensor(const at::Tensor&, c10::SymIntArrayRef)>().call(base, strides);
    }
    memory.add_update(kept, {});
    functional::impl::sync(written.tensor);
  }
}

TORCH_LIBRARY_FRAGMENT(firesteel, library) {
  library.def("laid_out(Tensor self, SymInt[] strides) -> Tensor");
  library.impl("laid_out", c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(laid_out));
}

}  // namespace firesteel
