// Works out the strides that ATen gives to a copy.
#include "partition/layout.h"

#include <algorithm>
#include <numeric>

namespace firesteel {

Type type_of_copy(const Type& type) {
  Type copy = type;
  copy.requires_grad = false;
  auto is_number = [](const Dim& dim) { return dim.is_number(); };
  const bool known = std::all_of(type.sizes.begin(), type.sizes.end(), is_number) &&
                     std::all_of(type.strides.begin(), type.strides.end(), is_number);
  if (!known) {
    copy.strides = contiguous_strides(type.sizes);
    return copy;
  }
  std::vector<size_t> order(type.sizes.size());  // from the innermost dimension outwards
  std::iota(order.rbegin(), order.rend(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return type.strides[a].number() < type.strides[b].number(); });
  // A dimension of size one may have any stride, and a copy keeps it where the rest is dense already.
  int64_t stride = 1;
  bool dense = true;
  for (size_t dim : order) {
    const int64_t size = type.sizes[dim].number();
    dense &= size == 1 || type.strides[dim].number() == stride;
    copy.strides[dim] = stride;
    stride *= std::max<int64_t>(size, 1);
  }
  if (dense) copy.strides = type.strides;
  return copy;
}

}  // namespace firesteel
