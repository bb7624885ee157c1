// The kernels of this process by their text: each is compiled once for a target.
#include "codegen/kernel_compiler.h"

#include <cstdio>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "codegen/cpu/jit.h"
#include "codegen/cpu/target.h"

namespace firesteel {
namespace {

struct Library {
  std::mutex mutex;
  std::unordered_map<std::string, KernelFunction> functions;  // by target and text; null where compilation failed
  KernelCounters counters;
  bool warned = false;
};

Library& library() {
  static auto* shared = new Library();  // kernels may run while the process ends
  return *shared;
}

void warn_once(Library& known, const std::string& why) {
  if (std::exchange(known.warned, true)) return;
  std::fprintf(stderr, "firesteel: a kernel could not be compiled, its operators run in ATen: %s\n", why.c_str());
}

}  // namespace

std::vector<KernelFunction> compile_kernels(std::span<const LoopKernel* const> kernels) {
  const cpu::Target target = cpu::chosen_target();
  Library& known = library();
  std::lock_guard lock(known.mutex);
  std::vector<KernelFunction> result;
  for (const LoopKernel* kernel : kernels) {
    const std::string key = std::string(cpu::target_text(target)) + "\n" + kernel->str();
    auto [found, is_new] = known.functions.emplace(key, nullptr);
    if (is_new) {
      std::string why;
      auto by = cpu::MadeBy::Compiler;
      found->second = cpu::make_kernel(*kernel, target, by, why);
      uint64_t& count = by == cpu::MadeBy::Cache ? known.counters.loaded : known.counters.compiled;
      ++(found->second ? count : known.counters.failed);
      if (!why.empty()) warn_once(known, why);
    } else {
      ++known.counters.shared;
    }
    result.push_back(found->second);
  }
  return result;
}

bool can_compile_kernels() { return true; }

void forget_kernels() {
  std::lock_guard lock(library().mutex);
  library().functions.clear();
}

KernelCounters kernel_counters() {
  std::lock_guard lock(library().mutex);
  return library().counters;
}

void reset_kernel_counters() {
  std::lock_guard lock(library().mutex);
  library().counters = {};
}

}  // namespace firesteel
