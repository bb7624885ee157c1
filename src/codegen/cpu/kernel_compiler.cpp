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
  std::vector<std::string> keys;
  std::vector<const LoopKernel*> missing;
  std::vector<std::string> missing_keys;
  for (const LoopKernel* kernel : kernels) {
    keys.push_back(std::string(cpu::target_text(target)) + "\n" + kernel->str());
    const bool is_new = known.functions.emplace(keys.back(), nullptr).second;
    if (is_new) {
      missing.push_back(kernel);
      missing_keys.push_back(keys.back());
    } else {
      ++known.counters.shared;
    }
  }
  if (!missing.empty()) {
    std::string why;
    const std::vector<KernelFunction> made = cpu::compile_batch(missing, target, why);
    for (size_t i = 0; i < made.size(); ++i) {
      known.functions[missing_keys[i]] = made[i];
      ++(made[i] ? known.counters.compiled : known.counters.failed);
    }
    if (!why.empty()) warn_once(known, why);
  }
  std::vector<KernelFunction> result;
  for (const std::string& key : keys) result.push_back(known.functions.at(key));
  return result;
}

bool can_compile_kernels() { return true; }

KernelCounters kernel_counters() {
  std::lock_guard lock(library().mutex);
  return library().counters;
}

void reset_kernel_counters() {
  std::lock_guard lock(library().mutex);
  library().counters = {};
}

}  // namespace firesteel
