// Reading CPython's exception table.
#include "capture/exception_table.h"

#include <opcode.h>

namespace firesteel::capture {
namespace {

// Start, size, handler, depth and whether the instruction is pushed, as 6-bit groups.
struct TableReader {
  const unsigned char *at, *end;
  int number() {
    int value = *at & 63;
    while (*at & 64) value = (value << 6) | (*++at & 63);
    ++at;
    return value;
  }
};

}  // namespace

ExceptionHandler find_handler(PyCodeObject* code, int instruction) {
  auto* bytes = reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(code->co_exceptiontable));
  TableReader reader{bytes, bytes + PyBytes_GET_SIZE(code->co_exceptiontable)};
  while (reader.at < reader.end) {
    const int start = reader.number(), size = reader.number(), target = reader.number(), packed = reader.number();
    if (start > instruction) break;
    if (instruction < start + size) return {target, packed >> 1, (packed & 1) != 0};
  }
  return {};
}

bool is_in_try(PyCodeObject* code, PyObject* bytes, int instruction) {
  auto opcode = [&](int at) { return static_cast<unsigned char>(PyBytes_AS_STRING(bytes)[at * 2]); };
  constexpr int kMostBlocks = 64;
  for (int blocks = 0; blocks < kMostBlocks; ++blocks) {
    const int target = find_handler(code, instruction).target;
    if (target < 0) return false;
    const bool ends_block = opcode(target) == PUSH_EXC_INFO && opcode(target + 1) == WITH_EXCEPT_START;
    if (!ends_block && opcode(target) != COPY) return true;  // COPY: what ends the handling, and raises again
    instruction = target;
  }
  return true;
}

}  // namespace firesteel::capture
