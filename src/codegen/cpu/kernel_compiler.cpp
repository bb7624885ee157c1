// The kernels of this process by their text: each is compiled once for a target.
#include "codegen/kernel_compiler.h"

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/progress.h"
#include "codegen/cpu/jit.h"
#include "codegen/cpu/target.h"

namespace firesteel {
namespace {

struct Library {
  std::mutex compiling;  // LLVM is used by one thread at a time; taken before `mutex` where both are
  std::mutex mutex;      // guards all below
  std::unordered_map<std::string, KernelFunction> functions;  // by target and text; null where compilation failed
  std::unordered_map<std::string, KernelFacts> facts;         // of the same
  KernelCounters counters;
  bool warned = false;
  bool failing = false, spoiling = false;  // guarded by `compiling`
};

Library& library() {
  static auto* shared = [] {
    // The child of a fork gets LLVM and these locks at rest.
    pthread_atfork(
        [] {
          library().compiling.lock();
          library().mutex.lock();
        },
        [] {
          library().mutex.unlock();
          library().compiling.unlock();
        },
        [] {
          library().mutex.unlock();
          library().compiling.unlock();
        });
    return new Library();  // kernels may run while the process ends
  }();
  return *shared;
}

// Where the kernel's text was put for a report; empty where it could not be.
std::string written_down(const LoopKernel& kernel, const std::string& why) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) return {};
  std::string path = folder / "firesteel-kernel-XXXXXX";
  const int file = mkstemp(path.data());
  if (file < 0) return {};
  const std::string text = why + "\n\n" + kernel.str() + "\n";
  const bool whole = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(file);
  return whole ? path : std::string();
}

void warn_once(Library& known, const LoopKernel& kernel, const std::string& why) {
  if (std::exchange(known.warned, true)) return;
  const std::string path = written_down(kernel, why);
  std::fprintf(stderr, "firesteel: a kernel could not be compiled, its operators run in ATen: %s\n  try: %s%s\n",
               why.c_str(),
               path.empty() ? "report it with the program that led here" : "report it with the kernel, written to ",
               path.c_str());
}

std::string key_of(const LoopKernel& kernel, cpu::Target target) {
  return std::string(cpu::target_text(target)) + "\n" + kernel.str();
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::optional<KernelFunction> find(Library& known, const std::string& key) {
  std::lock_guard lock(known.mutex);
  auto found = known.functions.find(key);
  if (found == known.functions.end()) return std::nullopt;
  ++known.counters.shared;
  return found->second;
}

// The same with every float it stores negated.
LoopKernel spoiled(LoopKernel kernel) {
  for (LoopStore& store : kernel.stores) {
    if (is_float(kernel.type(store.value))) store.value = kernel.op(LoopOp::Neg, store.value);
  }
  return kernel;
}

// FIRESTEEL_SPOIL=tanh, for tests: -a where a kernel should compute this operation of one operand.
LoopKernel without_spoiled_operation(LoopKernel kernel, std::string_view operation) {
  for (LoopExpr& expr : kernel.exprs) {
    if (loop_op_text(expr.op) == operation && operand_count(expr.op) == 1 && is_float(expr.type)) expr.op = LoopOp::Neg;
  }
  return kernel;
}

LoopKernel as_asked(const Library& known, const LoopKernel& kernel) {
  const char* operation = std::getenv("FIRESTEEL_SPOIL");
  LoopKernel asked = operation ? without_spoiled_operation(kernel, operation) : kernel;
  return known.spoiling ? spoiled(std::move(asked)) : asked;
}

KernelFunction find_or_make(Library& known, const LoopKernel& kernel, cpu::Target target) {
  const std::string key = key_of(kernel, target);
  if (auto found = find(known, key)) return *found;
  std::lock_guard compiling(known.compiling);
  if (auto found = find(known, key)) return *found;  // made while this thread waited
  std::string why;
  auto by = cpu::MadeBy::Compiler;
  KernelFunction function = nullptr;
  const double began = seconds_now();
  try {
    function = known.failing ? nullptr : cpu::make_kernel(as_asked(known, kernel), target, by, why);
    if (known.failing) why = "it was made to fail for a test";
  } catch (const std::exception& error) {
    why = error.what();
  }
  std::lock_guard lock(known.mutex);
  known.functions.emplace(key, function);
  known.facts[key] = {function != nullptr, by == cpu::MadeBy::Cache, began, seconds_now() - began};
  uint64_t& count = by == cpu::MadeBy::Cache ? known.counters.loaded : known.counters.compiled;
  ++(function ? count : known.counters.failed);
  if (!why.empty()) warn_once(known, kernel, why);
  return function;
}

}  // namespace

std::vector<KernelFunction> compile_kernels(std::span<const LoopKernel* const> kernels) {
  const cpu::Target target = cpu::chosen_target();
  std::vector<KernelFunction> result;
  // One alone comes from the background: nobody waits for it.
  std::optional<Compiling> waited_for;
  if (kernels.size() > 1) waited_for.emplace();
  const ProgressStage stage("compiling kernels", kernels.size());
  for (const LoopKernel* kernel : kernels) {
    result.push_back(find_or_make(library(), *kernel, target));
    count_progress();
    tell_progress_if_due();
  }
  return result;
}

std::optional<KernelFunction> known_kernel(const LoopKernel& kernel) {
  return find(library(), key_of(kernel, cpu::chosen_target()));
}

std::optional<KernelFacts> kernel_facts(const LoopKernel& kernel) {
  Library& known = library();
  const std::string key = key_of(kernel, cpu::chosen_target());
  std::lock_guard lock(known.mutex);
  auto found = known.facts.find(key);
  return found == known.facts.end() ? std::nullopt : std::optional(found->second);
}

void check_kernel_target() { cpu::chosen_target(); }

bool can_compile_kernels() { return true; }

void forget_kernels() {
  std::lock_guard lock(library().mutex);
  library().functions.clear();
}

void fail_kernels(bool fail) {
  std::scoped_lock lock(library().compiling, library().mutex);
  library().failing = fail;
  library().warned = false;
}

void spoil_kernels(bool spoil) {
  std::lock_guard lock(library().compiling);
  library().spoiling = spoil;
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
