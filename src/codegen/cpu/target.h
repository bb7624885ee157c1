// The x86-64 machines that code is generated for.
#pragma once

namespace firesteel::cpu {

// One table drives the enum, FIRESTEEL_CPU and code generation: target, spelling, LLVM's name, bytes in a vector.
#define FIRESTEEL_CPU_TARGETS(X)   \
  X(Sse, "sse", "x86-64", 16)      \
  X(Avx2, "avx2", "x86-64-v3", 32) \
  X(Avx512, "avx512", "x86-64-v4", 64)

enum class Target {
#define X(name, text, llvm_name, bytes) name,
  FIRESTEEL_CPU_TARGETS(X)
#undef X
};

const char* target_text(Target target);
const char* llvm_cpu_name(Target target);
int vector_bytes(Target target);
inline bool has_fma(Target target) { return target != Target::Sse; }

// The best that this machine runs, or what FIRESTEEL_CPU asks for where that is less. Throws Error on an unknown word.
Target chosen_target();

}  // namespace firesteel::cpu
