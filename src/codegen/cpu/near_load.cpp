// The run from the first lane's element to the last one's, each lane then taking its own.
#include "codegen/cpu/near_load.h"

#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/cpu/emit_expr.h"

namespace firesteel::cpu {
namespace {

using llvm::Value;

// The machine loads a part of a vector of these, and permutes a register of them by numbers in another.
bool can_permute(const Lanes& l, Element type) {
  if (l.target == Target::Avx512) return l.width == 16;
  return l.target == Target::Avx2 && l.width == 8 && element_bytes(type) == 4;
}

Value* repeat_lane(const Lanes& l, Value* vector, unsigned lane) {
  return l.b.CreateShuffleVector(vector, std::vector<int>(l.width, static_cast<int>(lane)));
}

Value* permute_words(const Lanes& l, Value* vector, Value* lanes) {
  const auto how =
      l.target == Target::Avx512 ? llvm::Intrinsic::x86_avx512_permvar_sf_512 : llvm::Intrinsic::x86_avx2_permps;
  Value* words = l.b.CreateBitCast(vector, l.f32());
  return l.b.CreateBitCast(l.b.CreateIntrinsic(how, {}, {words, lanes}), vector->getType());
}

// Of 64 bits each half by itself: whoever wants the lower one alone has no use for the other, and it goes.
Value* permute(const Lanes& l, Value* vector, Value* lanes) {
  llvm::Type* type = vector->getType();
  if (type->getScalarSizeInBits() == 32) return permute_words(l, vector, lanes);
  Value *bits = l.b.CreateBitCast(vector, l.i64()), *word = l.integer(l.i64(), 32);
  Value* low = permute_words(l, l.b.CreateTrunc(bits, l.i32()), lanes);
  Value* high = permute_words(l, l.b.CreateTrunc(l.b.CreateLShr(bits, word), l.i32()), lanes);
  Value* both = l.b.CreateOr(l.b.CreateZExt(low, l.i64()), l.b.CreateShl(l.b.CreateZExt(high, l.i64()), word));
  return l.b.CreateBitCast(both, type);
}

}  // namespace

Value* emit_load_near(const Lanes& l, const NearLoad& load, bool uniform, bool in_steps) {
  if (!uniform || !in_steps || !is_number(load.stride, 0) || !can_permute(l, load.type)) {
    Value* further = l.b.CreateAdd(load.further, l.b.CreateSExt(load.near, l.i64()));
    return emit_load_at(l, load.type, load.from, load.stride, further, false, load.mask);
  }
  llvm::Type* element = l.memory_element(load.type);
  Value* first = l.b.CreateSExt(l.b.CreateExtractElement(load.near, uint64_t{0}), l.b.getInt64Ty());
  Value* row = l.b.CreateGEP(element, load.from, l.b.CreateExtractElement(load.further, uint64_t{0}));
  Value* lanes = l.b.CreateSub(load.near, repeat_lane(l, load.near, 0));
  Value* wanted = l.b.CreateICmpSLE(l.b.CreateStepVector(l.i32()), repeat_lane(l, lanes, l.width - 1));
  Value* run = emit_load(l, load.type, l.b.CreateGEP(element, row, first), l.b.getInt64(1), wanted);
  return permute(l, run, lanes);
}

}  // namespace firesteel::cpu
