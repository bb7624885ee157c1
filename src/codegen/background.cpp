// The thread that compiles kernels: started when there is work, ended with the process, made anew after a fork.
#include "codegen/background.h"

#include <pthread.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

namespace firesteel {

class Compiler {
 public:
  static inline std::atomic<bool> was_asked = false;  // for anything

  static Compiler& of_process() {
    static auto* compiler = new Compiler();  // never destroyed: its thread may outlive the statics
    return *compiler;
  }

  void add(const std::shared_ptr<KernelJob>& job) {
    std::lock_guard lock(mutex_);
    jobs_.push_back(job);
    ensure_thread();
    changed_->notify_all();
  }

  void hold(bool held) {
    std::lock_guard lock(mutex_);
    held_ = held;
    changed_->notify_all();
  }

  // In a child of fork the thread is gone, and its work is not.
  void ensure_alive() {
    if (alive_.load(std::memory_order_relaxed)) return;
    std::lock_guard lock(mutex_);
    ensure_thread();
  }

  void end() {
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
      changed_->notify_all();
    }
    if (alive_) thread_->join();
    alive_ = false;
  }

 private:
  Compiler() {
    was_asked = true;
    kernel_counters();  // makes its locks known to fork first: they are then taken last, as when compiling
    std::atexit([] { of_process().end(); });  // for a process that another thread than the first one ends
    pthread_atfork([] { of_process().before_fork(); }, [] { of_process().after_fork(/*in_child=*/false); },
                   [] { of_process().after_fork(/*in_child=*/true); });
  }

  void ensure_thread() {
    if (alive_ || ending_ || jobs_.empty()) return;
    try {
      thread_ = new std::thread([this] { work(); });
      alive_ = true;
    } catch (const std::system_error&) {
      alive_ = false;  // no thread to be had: calls go on with ATen, and the next one asks again
    }
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_->wait(lock, [&] { return ending_ || (!held_ && !jobs_.empty()); });
      if (ending_) return;
      std::shared_ptr<KernelJob> job = jobs_.front().lock();
      if (!job || job->done_) {
        jobs_.pop_front();
        continue;
      }
      lock.unlock();
      {
        std::lock_guard compiling(compiling_);
        job->compile_next();
      }
      job.reset();
      lock.lock();
    }
  }

  // LLVM is at rest while the process forks: the child gets its locks open and its data whole.
  void before_fork() {
    compiling_.lock();
    mutex_.lock();
  }

  void after_fork(bool in_child) {
    if (in_child) {
      thread_ = nullptr;  // it is not there to be joined
      alive_ = false;
      changed_ = new std::condition_variable();  // the old one still counts the parent's waiting thread
    }
    mutex_.unlock();
    compiling_.unlock();
  }

  std::mutex compiling_;  // held while a kernel is compiled; taken before `mutex_` where both are
  std::mutex mutex_;      // guards all below
  std::condition_variable* changed_ = new std::condition_variable();
  std::deque<std::weak_ptr<KernelJob>> jobs_;  // the first is the one at work
  std::thread* thread_ = nullptr;
  std::atomic<bool> alive_ = false;
  bool ending_ = false;
  bool held_ = false;
};

namespace {

// Ends the compiling thread with the process's first thread: LLVM makes statics as it goes, which are younger than any
// function given to atexit() before, and would be destroyed under its hands. What belongs to the thread that ends the
// process goes before all of them.
struct EndsWithFirstThread {
  ~EndsWithFirstThread() {
    if (getpid() == gettid() && Compiler::was_asked) Compiler::of_process().end();
  }
};
thread_local EndsWithFirstThread g_ends_with_first_thread;
[[maybe_unused]] const EndsWithFirstThread* const g_made = &g_ends_with_first_thread;  // by the thread that loads us

}  // namespace

KernelJob::KernelJob(std::vector<LoopKernel> kernels) : kernels_(std::move(kernels)) {
  functions_.reserve(kernels_.size());
  done_ = kernels_.empty();
}

// Only where all are there: a job that has begun is the compiling thread's.
void KernelJob::take_known() {
  std::vector<KernelFunction> functions;
  for (const LoopKernel& kernel : kernels_) {
    const std::optional<KernelFunction> known = known_kernel(kernel);
    if (!known) return;
    functions.push_back(*known);
  }
  functions_ = std::move(functions);
  done_ = true;
}

void KernelJob::compile_next() {
  if (done_) return;
  const LoopKernel* next = &kernels_[functions_.size()];
  KernelFunction function = nullptr;
  try {
    function = compile_kernels({&next, 1}).front();
  } catch (...) {
    function = nullptr;  // out of memory, say: ATen runs what has no kernel
  }
  functions_.push_back(function);
  if (functions_.size() == kernels_.size()) done_.store(true, std::memory_order_release);
}

bool KernelJob::done() const {
  if (done_.load(std::memory_order_acquire)) return true;
  Compiler::of_process().ensure_alive();
  return false;
}

std::shared_ptr<const KernelJob> compile_in_background(std::vector<LoopKernel> kernels) {
  auto job = std::make_shared<KernelJob>(std::move(kernels));
  job->take_known();
  if (!job->done()) Compiler::of_process().add(job);
  return job;
}

void hold_background_compiler(bool held) { Compiler::of_process().hold(held); }

}  // namespace firesteel
