// Symbolic layouts, decided dimension by dimension.
#include "aot/symbolic_layouts.h"

#include <algorithm>
#include <numeric>

#include "graph/data_symbols.h"

namespace firesteel {
namespace {

bool is_one(Symbols& symbols, const Dim& size) { return symbols.is_one(size); }
bool equal(Symbols& symbols, const Dim& a, const Dim& b) { return a == b || symbols.decide_layout(Relation::eq(a, b)); }

// A tensor without elements lies in no way, or in any.
bool is_empty(Symbols& symbols, const SymbolicLayout& layout) {
  const Relation relation = Relation::eq(elements(layout.sizes), 0);
  return mentions_data(relation) ? symbols.known(relation).value_or(false) : symbols.decide(relation);
}

// Dimensions from the innermost outwards, as their strides in the traced call order them.
std::vector<size_t> inner_first(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  std::vector<size_t> order(strides.size());
  std::iota(order.rbegin(), order.rend(), size_t{0});
  // A dimension of size one lies nowhere: it stays where it is among the others.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (sizes[a] == 1 || sizes[b] == 1) return false;
    return strides[a] < strides[b];
  });
  return order;
}

bool follows(Symbols& symbols, const SymbolicLayout& layout, const std::vector<size_t>& order) {
  Dim expected = 1;
  for (size_t dim : order) {
    if (is_one(symbols, layout.sizes[dim])) continue;
    if (!equal(symbols, layout.strides[dim], expected)) return false;
    expected = symbols.simplify(expected * layout.sizes[dim]);
  }
  return true;
}

}  // namespace

Dim elements(const std::vector<Dim>& sizes) {
  Dim product = 1;
  for (const Dim& size : sizes) product = product * size;
  return product;
}

bool is_contiguous(Symbols& symbols, const SymbolicLayout& layout, at::MemoryFormat format) {
  const size_t rank = layout.sizes.size();
  std::vector<size_t> order;
  if (format == at::MemoryFormat::ChannelsLast) {
    if (rank != 4) return false;
    order = {1, 3, 2, 0};
  } else if (format == at::MemoryFormat::ChannelsLast3d) {
    if (rank != 5) return false;
    order = {1, 4, 3, 2, 0};
  } else {
    order.resize(rank);
    std::iota(order.rbegin(), order.rend(), size_t{0});
  }
  if (is_empty(symbols, layout)) return true;
  return follows(symbols, layout, order);
}

bool is_dense(Symbols& symbols, const SymbolicLayout& layout) {
  std::vector<int64_t> sizes, strides;
  for (const Dim& size : layout.sizes) sizes.push_back(symbols.hint(size));
  for (const Dim& stride : layout.strides) strides.push_back(symbols.hint(stride));
  if (is_empty(symbols, layout)) return true;
  return follows(symbols, layout, inner_first(sizes, strides));
}

void keep_order(Symbols& symbols, const SymbolicLayout& layout) {
  // The usual order is the same for all sizes.
  const bool data =
      std::any_of(layout.sizes.begin(), layout.sizes.end(), [](const Dim& size) { return mentions_data(size); });
  if (data && layout.strides == contiguous_strides(layout.sizes)) return;
  std::vector<int64_t> sizes, strides;
  for (const Dim& size : layout.sizes) sizes.push_back(symbols.hint(size));
  for (const Dim& stride : layout.strides) strides.push_back(symbols.hint(stride));
  const Dim* inner = nullptr;
  for (size_t dim : inner_first(sizes, strides)) {
    if (is_one(symbols, layout.sizes[dim])) continue;  // its stride means nothing
    if (inner) symbols.keep(Relation::lt(*inner, layout.strides[dim]));
    inner = &layout.strides[dim];
  }
}

std::vector<Dim> dense_strides(const std::vector<Dim>& sizes, c10::IntArrayRef traced_sizes,
                               c10::IntArrayRef traced_strides) {
  std::vector<Dim> strides(sizes.size());
  Dim stride = 1;
  for (size_t dim : inner_first(traced_sizes, traced_strides)) {
    strides[dim] = stride;
    if (!(sizes[dim].is_number() && sizes[dim].number() <= 1)) stride = stride * sizes[dim];
  }
  return strides;
}

// Dimensions that follow each other without a gap form a block, which the new sizes must fill exactly.
std::optional<std::vector<Dim>> view_strides(Symbols& symbols, const SymbolicLayout& layout,
                                             const std::vector<Dim>& sizes) {
  if (is_contiguous(symbols, layout, at::MemoryFormat::Contiguous)) return contiguous_strides(sizes);
  std::vector<Dim> strides(sizes.size());
  auto next = static_cast<int64_t>(sizes.size()) - 1;
  Dim block = 1;
  const auto rank = static_cast<int64_t>(layout.sizes.size());
  Dim inner = rank > 0 ? layout.strides[rank - 1] : Dim(1);
  for (int64_t dim = rank - 1; dim >= 0; --dim) {
    block = symbols.simplify(block * layout.sizes[dim]);
    const bool ends = dim == 0 || (!is_one(symbols, layout.sizes[dim - 1]) &&
                                   !equal(symbols, layout.strides[dim - 1], symbols.simplify(block * inner)));
    if (!ends) continue;
    Dim filled = 1;
    while (next >= 0 && (symbols.decide_layout(Relation::lt(filled, block)) || is_one(symbols, sizes[next]))) {
      strides[next] = symbols.simplify(filled * inner);
      filled = symbols.simplify(filled * sizes[next]);
      --next;
    }
    if (!equal(symbols, filled, block)) return std::nullopt;
    if (dim > 0) {
      block = 1;
      inner = layout.strides[dim - 1];
    }
  }
  if (next != -1) return std::nullopt;
  return strides;
}

}  // namespace firesteel
