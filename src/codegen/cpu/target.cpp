// Finds out what the machine at hand can do.
#include "codegen/cpu/target.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/error.h"

namespace firesteel::cpu {
namespace {

struct TargetFacts {
  const char* text;
  const char* llvm_name;
  int bytes;
};
constexpr TargetFacts kTargets[] = {
#define X(name, text, llvm_name, bytes) {text, llvm_name, bytes},
    FIRESTEEL_CPU_TARGETS(X)
#undef X
};

Target host_target() {
  if (__builtin_cpu_supports("x86-64-v4")) return Target::Avx512;
  if (__builtin_cpu_supports("x86-64-v3")) return Target::Avx2;
  return Target::Sse;
}

}  // namespace

const char* target_text(Target target) { return kTargets[static_cast<int>(target)].text; }
const char* llvm_cpu_name(Target target) { return kTargets[static_cast<int>(target)].llvm_name; }
int vector_bytes(Target target) { return kTargets[static_cast<int>(target)].bytes; }

Target chosen_target() {
  static const Target host = host_target();
  const char* asked = std::getenv("FIRESTEEL_CPU");
  if (!asked || !*asked) return host;
  for (size_t i = 0; i < std::size(kTargets); ++i) {
    if (std::string_view(kTargets[i].text) == asked) return std::min(host, static_cast<Target>(i));
  }
  FS_RAISE(Error, "FIRESTEEL_CPU is '{}'\n  try: avx512, avx2 or sse, or leave it unset", asked);
}

}  // namespace firesteel::cpu
