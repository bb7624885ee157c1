// Conversions between element types, in registers and at the border to memory.
#include "codegen/cpu/lanes.h"

namespace firesteel::cpu {
namespace {

using llvm::Value;

// Rounds to the nearest bfloat16, ties to even, by adding to the bits that fall away; the result is still an f32.
Value* round_to_bf16(const Lanes& l, Value* x) {
  Value* bits = l.as_int(x);
  Value* odd = l.b.CreateAnd(l.b.CreateLShr(bits, l.i(16)), l.i(1));
  Value* rounded = l.b.CreateAnd(l.b.CreateAdd(bits, l.b.CreateAdd(odd, l.i(0x7fff))), l.i(0xffff0000));
  return l.as_float(l.b.CreateSelect(l.is_nan(x), l.i(0x7fc00000), rounded));
}

// LLVM takes operations between casts to the narrower type. Of halves that is a comparison an element at a time; and of
// `x < 0 ? 0 : x` it makes `x <= 0 ? 0 : x`, which loses the sign of -0.0. Not across a fence.
Value* fenced(const Lanes& l, Value* x) { return l.intrinsic(llvm::Intrinsic::arithmetic_fence, x); }

// Half precision without F16C. Exponents are moved by multiplying with a power of two, which is exact, denormals
// included.
constexpr double kHalfScale = 0x1p112;
constexpr int kHalfInfinity = 0x7c00, kHalfNan = 0x7e00;

Value* half_to_float(const Lanes& l, Value* half) {
  Value* bits = l.b.CreateZExt(half, l.i32());
  Value* magnitude = l.b.CreateAnd(bits, l.i(0x7fff));
  Value* scaled = l.b.CreateFMul(l.as_float(l.b.CreateShl(magnitude, l.i(13))), l.f(kHalfScale));
  Value* special = l.b.CreateOr(l.as_int(scaled), l.i(0x7f800000));
  Value* is_special = l.b.CreateICmpSGE(magnitude, l.i(kHalfInfinity));
  Value* sign = l.b.CreateShl(l.b.CreateAnd(bits, l.i(0x8000)), l.i(16));
  return l.as_float(l.b.CreateOr(l.b.CreateSelect(is_special, special, l.as_int(scaled)), sign));
}

Value* float_to_half(const Lanes& l, Value* x) {
  Value* bits = l.as_int(x);
  Value* magnitude = l.b.CreateAnd(bits, l.i(0x7fffffff));
  Value* sign = l.b.CreateLShr(l.b.CreateXor(bits, magnitude), l.i(16));
  // Normal results: round to 10 bits of mantissa, then move the exponent.
  Value* odd = l.b.CreateAnd(l.b.CreateLShr(magnitude, l.i(13)), l.i(1));
  Value* rounded = l.b.CreateAdd(l.b.CreateAdd(magnitude, l.i(0xfff)), odd);
  Value* normal = l.b.CreateLShr(l.b.CreateSub(rounded, l.i(112 << 23)), l.i(13));
  // Denormal results: adding 0.5 puts the bits that remain at the end of the mantissa, rounded by the addition itself.
  Value* shifted = l.as_int(l.b.CreateFAdd(l.as_float(magnitude), l.f(0.5)));
  Value* denormal = l.b.CreateSub(shifted, l.i(0x3f000000));
  Value* small = l.b.CreateICmpSLT(magnitude, l.i(113 << 23));
  Value* half = l.b.CreateSelect(small, denormal, normal);
  half = l.b.CreateSelect(l.b.CreateICmpSGE(magnitude, l.i(0x477ff000)), l.i(kHalfInfinity), half);
  half = l.b.CreateSelect(l.is_nan(x), l.i(kHalfNan), half);
  return l.b.CreateTrunc(l.b.CreateOr(half, sign), l.vector(l.b.getInt16Ty()));
}

Value* narrow_half(const Lanes& l, Value* x) {
  if (l.target == Target::Sse) return float_to_half(l, x);
  return l.b.CreateBitCast(l.b.CreateFPTrunc(fenced(l, x), l.vector(l.b.getHalfTy())), l.vector(l.b.getInt16Ty()));
}

Value* widen_half(const Lanes& l, Value* half) {
  if (l.target == Target::Sse) return half_to_float(l, half);
  return fenced(l, l.b.CreateFPExt(l.b.CreateBitCast(half, l.vector(l.b.getHalfTy())), l.f32()));
}

// Cuts an i32 to fewer bits, sign or zero extended again.
Value* cut(const Lanes& l, Value* x, unsigned bits, bool is_signed) {
  llvm::Type* small = l.vector(l.b.getIntNTy(bits));
  Value* low = l.b.CreateTrunc(x, small);
  return is_signed ? l.b.CreateSExt(low, l.i32()) : l.b.CreateZExt(low, l.i32());
}

Value* to_computed(const Lanes& l, Value* x, Element from, Element to) {
  if (from == to) return x;
  llvm::Type* type = l.vector(l.element(to));
  const bool from_float = is_float(from), to_float = is_float(to);
  if (to == Element::Bool) {
    return from_float ? l.b.CreateFCmpUNE(x, l.number(x->getType(), 0.0))
                      : l.b.CreateICmpNE(x, l.integer(x->getType(), 0));
  }
  if (from == Element::Bool) return to_float ? l.b.CreateUIToFP(x, type) : l.b.CreateZExt(x, type);
  if (from_float && to_float)
    return to == Element::F64 ? fenced(l, l.b.CreateFPExt(x, type)) : l.b.CreateFPTrunc(fenced(l, x), type);
  if (from_float) return l.b.CreateFPToSI(x, type);
  if (to_float) return l.b.CreateSIToFP(x, type);
  return l.b.CreateSExtOrTrunc(x, type);
}

}  // namespace

llvm::Type* Lanes::element(Element type) const {
  switch (computed_as(type)) {
    case Element::Bool:
      return b.getInt1Ty();
    case Element::I64:
      return b.getInt64Ty();
    case Element::F32:
      return b.getFloatTy();
    case Element::F64:
      return b.getDoubleTy();
    default:
      return b.getInt32Ty();
  }
}

llvm::Type* Lanes::memory_element(Element type) const {
  if (type == Element::F32 || type == Element::F64) return element(type);
  return b.getIntNTy(static_cast<unsigned>(element_bytes(type)) * 8);
}

Value* Lanes::fma(Value* a, Value* x, Value* c) const {
  if (!has_fma(target)) return b.CreateFAdd(b.CreateFMul(a, x), c);
  return b.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, x, c});
}

Value* widen(const Lanes& l, Value* stored, Element type) {
  switch (type) {
    case Element::Bool:
      return l.b.CreateICmpNE(stored, l.integer(stored->getType(), 0));
    case Element::U8:
      return l.b.CreateZExt(stored, l.i32());
    case Element::I8:
    case Element::I16:
      return l.b.CreateSExt(stored, l.i32());
    case Element::BF16:
      return l.as_float(l.b.CreateShl(l.b.CreateZExt(stored, l.i32()), l.i(16)));
    case Element::F16:
      return widen_half(l, stored);
    default:
      return stored;
  }
}

Value* narrow(const Lanes& l, Value* held, Element type) {
  switch (type) {
    case Element::Bool:
      return l.b.CreateZExt(held, l.vector(l.memory_element(type)));
    case Element::U8:
    case Element::I8:
    case Element::I16:
      return l.b.CreateTrunc(held, l.vector(l.memory_element(type)));
    case Element::BF16:
      return l.b.CreateTrunc(l.b.CreateLShr(l.as_int(held), l.i(16)), l.vector(l.memory_element(type)));
    case Element::F16:
      return narrow_half(l, held);
    default:
      return held;
  }
}

Value* convert(const Lanes& l, Value* value, Element from, Element to) {
  Value* x = to_computed(l, value, computed_as(from), computed_as(to));
  switch (to) {
    case Element::BF16:
      return round_to_bf16(l, x);
    case Element::F16:
      return widen_half(l, narrow_half(l, x));
    case Element::U8:
      return cut(l, x, 8, false);
    case Element::I8:
      return cut(l, x, 8, true);
    case Element::I16:
      return cut(l, x, 16, true);
    default:
      return x;
  }
}

}  // namespace firesteel::cpu
