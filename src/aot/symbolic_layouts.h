// Layouts whose sizes are symbols: what is contiguous, dense, in which order.
#pragma once

#include <c10/core/MemoryFormat.h>

#include "aot/fake_tensor.h"
#include "aot/symbols.h"

namespace firesteel {

// The product of all sizes.
Dim elements(const std::vector<Dim>& sizes);

// Each is answered for the traced call, and guarded where it does not hold for all sizes.
bool is_contiguous(Symbols& symbols, const SymbolicLayout& layout, at::MemoryFormat format);
bool is_dense(Symbols& symbols, const SymbolicLayout& layout);

// Guards the order in which dimensions lie in memory, which decides how results are laid out.
void keep_order(Symbols& symbols, const SymbolicLayout& layout);

// Dense strides for these sizes, dimensions in the order that the traced strides have.
std::vector<Dim> dense_strides(const std::vector<Dim>& sizes, c10::IntArrayRef traced_sizes,
                               c10::IntArrayRef traced_strides);

// The strides of a view of `layout` with other sizes; nothing where there is none.
std::optional<std::vector<Dim>> view_strides(Symbols& symbols, const SymbolicLayout& layout,
                                             const std::vector<Dim>& sizes);

}  // namespace firesteel
