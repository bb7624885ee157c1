// Transcendental functions as vector code. Coefficients are minimax fits made for these intervals and forms.
#include "codegen/cpu/vector_math.h"

#include <cmath>
#include <initializer_list>
#include <vector>

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>

#include "codegen/cpu/erf_table.h"

namespace firesteel::cpu {
namespace {

using llvm::Value;

// Highest power first.
Value* polynomial(const Lanes& l, Value* x, std::initializer_list<double> coefficients) {
  Value* sum = nullptr;
  for (double c : coefficients) sum = sum ? l.fma(sum, x, l.f(c)) : l.f(c);
  return sum;
}

// 2^n times x, for whole n between -150 and 129, rounded once.
Value* scale_by_power(const Lanes& l, Value* x, Value* n) {
  if (l.target == Target::Avx512 && l.width == 16) {
    return l.b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
                               {x, n, x, l.b.getInt16(0xffff), l.b.getInt32(4)});
  }
  Value* whole = l.b.CreateFPToSI(n, l.i32());
  Value* half = l.b.CreateAShr(whole, l.i(1));
  auto power = [&](Value* k) { return l.as_float(l.b.CreateShl(l.b.CreateAdd(k, l.i(127)), l.i(23))); };
  return l.b.CreateFMul(l.b.CreateFMul(x, power(half)), power(l.b.CreateSub(whole, half)));
}

// x = n·ln2 + r, |r| ≤ ln2/2; e^r = 1 + r + r²·P(r).
Value* exp(const Lanes& l, Value* x) {
  Value* inside = l.at_most(l.at_least(x, l.f(-104.0)), l.f(89.0));
  Value* n = l.intrinsic(llvm::Intrinsic::rint, l.b.CreateFMul(inside, l.f(1.4426950408889634)));
  Value* r = l.fma(n, l.f(-0.693145751953125), inside);
  r = l.fma(n, l.f(-1.428606765330187e-06), r);
  Value* p = polynomial(l, r, {0.000197902482, 0.00139447593, 0.00833349768, 0.0416662954, 0.166666657, 0.5});
  p = l.b.CreateFAdd(l.fma(l.b.CreateFMul(r, r), p, r), l.f(1.0));
  return scale_by_power(l, p, n);
}

// x = m·2^k, m around 1; log(1+f) = f - f²/2 + f³·P(f), and k·ln2 in two parts.
Value* log(const Lanes& l, Value* x) {
  Value* tiny = l.b.CreateFCmpOLT(x, l.f(0x1p-126));
  Value* normal = l.b.CreateSelect(tiny, l.b.CreateFMul(x, l.f(0x1p23)), x);
  Value* bits = l.as_int(normal);
  Value* exponent = l.b.CreateAnd(l.b.CreateSub(bits, l.i(0x3f3504f3)), l.i(static_cast<int32_t>(0xff800000)));
  Value* f = l.b.CreateFSub(l.as_float(l.b.CreateSub(bits, exponent)), l.f(1.0));
  Value* k = l.b.CreateSIToFP(l.b.CreateAShr(exponent, l.i(23)), l.f32());
  k = l.b.CreateSelect(tiny, l.b.CreateFSub(k, l.f(23.0)), k);
  Value* p = polynomial(l, f,
                        {0.0674660131, -0.116756409, 0.118881747, -0.124055915, 0.142195508, -0.166679963, 0.200021192,
                         -0.250000089, 0.333333135});
  Value* square = l.b.CreateFMul(f, f);
  Value* small = l.fma(l.b.CreateFMul(p, f), square, l.b.CreateFMul(square, l.f(-0.5)));
  small = l.fma(k, l.f(1.428606765330187e-06), small);
  Value* result = l.fma(k, l.f(0.693145751953125), l.b.CreateFAdd(f, small));
  result = l.b.CreateSelect(l.b.CreateFCmpOEQ(x, l.number(l.f32(), INFINITY)), x, result);
  result = l.b.CreateSelect(l.b.CreateFCmpOEQ(x, l.f(0.0)), l.number(l.f32(), -INFINITY), result);
  Value* undefined = l.b.CreateFCmpULT(x, l.f(0.0));  // NaN too
  return l.b.CreateSelect(undefined, l.number(l.f32(), NAN), result);
}

// Near 0 an odd polynomial, else 1 - 2/(e^2|x| + 1).
Value* tanh(const Lanes& l, Value* x) {
  Value* size = l.intrinsic(llvm::Intrinsic::fabs, x);
  Value* square = l.b.CreateFMul(x, x);
  Value* p =
      polynomial(l, square, {0.00214295881, -0.00817739498, 0.0217007007, -0.0539467633, 0.133332059, -0.333333313});
  Value* near = l.fma(l.b.CreateFMul(square, x), p, x);
  Value* e = exp(l, l.b.CreateFAdd(size, size));
  Value* far = l.b.CreateFSub(l.f(1.0), l.b.CreateFDiv(l.f(2.0), l.b.CreateFAdd(e, l.f(1.0))));
  return l.copysign(l.b.CreateSelect(l.b.CreateFCmpOGT(size, l.f(0.625)), far, near), x);  // of -0.0 too
}

// Below 1 an odd polynomial, else 1 - e^(-t·Q(t)), which is 1 from 4 on.
Value* erf(const Lanes& l, Value* x) {
  Value* size = l.intrinsic(llvm::Intrinsic::fabs, x);
  if (l.target == Target::Avx512 && l.width == 16) return l.copysign(emit_erf_of_size(l, size), x);
  Value* square = l.b.CreateFMul(x, x);
  Value* p = polynomial(
      l, square, {7.85385782e-05, -0.000801019254, 0.00518832775, -0.026853811, 0.112835854, -0.37612626, 0.128379166});
  Value* near = l.fma(x, p, x);
  Value* t = l.at_most(size, l.f(4.0));
  Value* q = polynomial(
      l, t, {1.39624444e-05, -0.000350592047, 0.00375747681, -0.0240100697, 0.106530868, 0.634969532, 1.1286943});
  Value* far = l.b.CreateFSub(l.f(1.0), exp(l, l.b.CreateFNeg(l.b.CreateFMul(t, q))));
  return l.b.CreateSelect(l.b.CreateFCmpOGT(size, l.f(1.0)), l.copysign(far, x), near);
}

std::string function_name(LoopOp op, const char* rest) { return std::string(loop_op_text(op)) + rest; }

llvm::FunctionCallee declare(const Lanes& l, const std::string& name, llvm::Type* type) {
  llvm::FunctionCallee callee = l.module.getOrInsertFunction(name, llvm::FunctionType::get(type, {type}, false));
  if (auto* function = llvm::dyn_cast<llvm::Function>(callee.getCallee())) {
    function->setDoesNotThrow();
    function->setDoesNotAccessMemory();
    function->setWillReturn();
  }
  return callee;
}

// A vector cut into pieces of as many lanes as the function takes; a piece of one lane is a scalar.
Value* call_in_pieces(const Lanes& l, const std::string& name, Value* x, unsigned lanes) {
  llvm::Type* element = llvm::cast<llvm::VectorType>(x->getType())->getElementType();
  llvm::Type* piece_type = lanes == 1 ? element : llvm::FixedVectorType::get(element, lanes);
  llvm::FunctionCallee callee = declare(l, name, piece_type);
  if (lanes == l.width) return l.b.CreateCall(callee, {x});
  Value* result = llvm::PoisonValue::get(x->getType());
  for (unsigned first = 0; first < l.width; first += lanes) {
    Value* at = l.b.getInt64(first);
    if (lanes == 1) {
      result = l.b.CreateInsertElement(result, l.b.CreateCall(callee, {l.b.CreateExtractElement(x, at)}), at);
    } else {
      Value* piece = l.b.CreateExtractVector(piece_type, x, at);
      result = l.b.CreateInsertVector(x->getType(), result, l.b.CreateCall(callee, {piece}), at);
    }
  }
  return result;
}

// Sleef_expf16_u10avx512f and its like; the plain names would look at the machine again at each call.
std::string sleef_name(LoopOp op, bool is_double, Target target) {
  const int lanes = vector_bytes(target) / (is_double ? 8 : 4);
  return "Sleef_" + function_name(op, is_double ? "d" : "f") + std::to_string(lanes) + "_u10" +
         (target == Target::Avx512 ? "avx512f" : "avx2");
}

Value* call_library(const Lanes& l, LoopOp op, Value* x) {
  const bool is_double = x->getType()->getScalarType()->isDoubleTy();
  if (l.target == Target::Sse) return call_in_pieces(l, function_name(op, is_double ? "" : "f"), x, 1);
  const unsigned lanes = static_cast<unsigned>(vector_bytes(l.target)) / (is_double ? 8 : 4);
  return call_in_pieces(l, sleef_name(op, is_double, l.target), x, lanes);
}

// x = k·π + r, |r| ≤ π/2, k whole for a sine and half of an odd number for a cosine. π is in three parts: good up to
// some hundred thousand. Every other half turn changes the sign.
Value* sine_inside(const Lanes& l, Value* x, LoopOp op) {
  const double half = op == LoopOp::Cos ? 0.5 : 0.0;
  Value* turns = l.intrinsic(llvm::Intrinsic::rint, l.fma(x, l.f(0.31830988618379067), l.f(-half)));
  Value* k = l.b.CreateFAdd(turns, l.f(half));
  Value* r = l.fma(k, l.f(-3.1415927410125732), x);
  r = l.fma(k, l.f(8.742277657347586e-08), r);
  r = l.fma(k, l.f(3.4302490200117637e-15), r);
  Value* square = l.b.CreateFMul(r, r);
  Value* p = polynomial(l, square, {2.60428169e-06, -0.00019808959, 0.0083330581, -0.166666597});
  Value* sine = l.fma(l.b.CreateFMul(square, r), p, r);
  Value* whole = l.b.CreateAdd(l.b.CreateFPToSI(turns, l.i32()), l.i(op == LoopOp::Cos ? 1 : 0));
  Value* result = l.as_float(l.b.CreateXor(l.as_int(sine), l.b.CreateShl(whole, l.i(31))));
  if (op == LoopOp::Cos) return result;
  return l.b.CreateSelect(l.b.CreateFCmpOEQ(x, l.f(0.0)), x, result);  // -0.0 stays what it is
}

// One lane out of reach sends the whole vector to the library.
Value* sine(const Lanes& l, LoopOp op, Value* x) {
  Value* outside = l.b.CreateFCmpUGT(l.intrinsic(llvm::Intrinsic::fabs, x), l.f(65536.0));
  Value* any = l.b.CreateICmpNE(l.b.CreateBitCast(outside, l.b.getIntNTy(l.width)), l.b.getIntN(l.width, 0));
  llvm::Function* function = l.b.GetInsertBlock()->getParent();
  auto block = [&](const char* name) { return llvm::BasicBlock::Create(l.module.getContext(), name, function); };
  llvm::BasicBlock *near = block("near"), *far = block("far"), *done = block("done");
  l.b.CreateCondBr(any, far, near, llvm::MDBuilder(l.module.getContext()).createBranchWeights(1, 1 << 20));
  l.b.SetInsertPoint(near);
  Value* usual = sine_inside(l, x, op);
  l.b.CreateBr(done);
  l.b.SetInsertPoint(far);
  Value* huge = call_library(l, op, x);
  l.b.CreateBr(done);
  l.b.SetInsertPoint(done);
  llvm::PHINode* result = l.b.CreatePHI(x->getType(), 2);
  result->addIncoming(usual, near);
  result->addIncoming(huge, far);
  return result;
}

constexpr LoopOp kFunctions[] = {LoopOp::Exp,   LoopOp::Log,   LoopOp::Sin,  LoopOp::Cos,  LoopOp::Tanh,  LoopOp::Erf,
                                 LoopOp::Expm1, LoopOp::Log1p, LoopOp::Exp2, LoopOp::Log2, LoopOp::Log10, LoopOp::Tan,
                                 LoopOp::Asin,  LoopOp::Acos,  LoopOp::Atan, LoopOp::Sinh, LoopOp::Cosh};
// Instructions everywhere but on plain SSE.
constexpr LoopOp kRoundings[] = {LoopOp::Floor, LoopOp::Ceil, LoopOp::Trunc, LoopOp::Rint};

}  // namespace

Value* emit_math(const Lanes& l, LoopOp op, Value* x) {
  if (!has_fma(l.target) || x->getType()->getScalarType()->isDoubleTy()) return call_library(l, op, x);
  switch (op) {
    case LoopOp::Exp:
      return exp(l, x);
    case LoopOp::Log:
      return log(l, x);
    case LoopOp::Tanh:
      return tanh(l, x);
    case LoopOp::Erf:
      return erf(l, x);
    case LoopOp::Sin:
    case LoopOp::Cos:
      return sine(l, op, x);
    default:
      return call_library(l, op, x);
  }
}

std::span<const std::string> sleef_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (LoopOp op : kFunctions) {
      for (Target target : {Target::Avx2, Target::Avx512}) {
        for (bool is_double : {false, true}) all.push_back(sleef_name(op, is_double, target));
      }
    }
    return all;
  }();
  return names;
}

std::span<const std::string> libm_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    auto add = [&](LoopOp op) {
      all.push_back(function_name(op, ""));
      all.push_back(function_name(op, "f"));
    };
    for (LoopOp op : kFunctions) add(op);
    for (LoopOp op : kRoundings) add(op);
    return all;
  }();
  return names;
}

}  // namespace firesteel::cpu
