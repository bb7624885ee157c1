// The end of the stack, asked for once a thread.
#include "python/c_stack.h"

#include <pthread.h>

#include <cstddef>
#include <cstdint>

namespace firesteel::python {
namespace {

// Stacks grow down: addresses below this one are the last third. 0 where the system does not tell.
uintptr_t last_third() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  void* lowest = nullptr;
  size_t size = 0;
  const bool told = pthread_attr_getstack(&attributes, &lowest, &size) == 0;
  pthread_attr_destroy(&attributes);
  return told ? reinterpret_cast<uintptr_t>(lowest) + size / 3 : 0;
}

}  // namespace

bool c_stack_is_low() {
  thread_local const uintptr_t limit = last_third();
  return reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) < limit;
}

}  // namespace firesteel::python
