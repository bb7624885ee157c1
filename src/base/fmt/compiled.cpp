// fmt's out-of-line half, compiled once. Torch ships fmt's headers alone; used header-only, they cost each source two
// seconds.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {
// What <fmt/format.h> declares and expects to find elsewhere, for `char`.
template FMT_API auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl<char>(locale_ref) -> char;
template FMT_API auto dragonbox::to_decimal<float>(float) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal<double>(double) noexcept -> dragonbox::decimal_fp<double>;
}  // namespace detail
FMT_END_NAMESPACE
