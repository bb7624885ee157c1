// Where errors are thrown from, and how the Python layer takes over the throwing.
#include "base/error.h"

#include <atomic>

namespace firesteel {
namespace {
std::atomic<Thrower> g_thrower{nullptr};
}

void set_thrower(Thrower thrower) { g_thrower.store(thrower, std::memory_order_relaxed); }

namespace detail {

Thrower current_thrower() { return g_thrower.load(std::memory_order_relaxed); }

void raise_internal(const char* file, int line, const char* condition, const std::string& message) {
  raise<InternalError>(fmt::format("{}\n  {}:{} expected {}\n  this is a mistake in Firesteel: please report it",
                                   message.empty() ? "an internal check failed" : message, file, line, condition));
}

}  // namespace detail
}  // namespace firesteel
