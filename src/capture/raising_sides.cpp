// Finds the sides of branches that only raise.
#include "capture/raising_sides.h"

#include <unordered_set>
#include <vector>

#include <opcode.h>

#include "capture/exception_table.h"
#include "python/errors.h"

namespace firesteel::capture {
using python::PyRef;

namespace {

// Jumps forward that a condition decides; those in a raising side are of its message.
bool may_jump(unsigned char opcode) {
  switch (opcode) {
#if PY_VERSION_HEX < 0x030c0000
    case POP_JUMP_FORWARD_IF_TRUE:
    case POP_JUMP_FORWARD_IF_FALSE:
    case POP_JUMP_FORWARD_IF_NONE:
    case POP_JUMP_FORWARD_IF_NOT_NONE:
    case JUMP_IF_TRUE_OR_POP:
    case JUMP_IF_FALSE_OR_POP:
#else
    case POP_JUMP_IF_TRUE:
    case POP_JUMP_IF_FALSE:
    case POP_JUMP_IF_NONE:
    case POP_JUMP_IF_NOT_NONE:
#endif
      return true;
    default:
      return false;
  }
}

bool leads_elsewhere(unsigned char opcode) {
  switch (opcode) {
    case RETURN_VALUE:
    case YIELD_VALUE:
    case SEND:
    case RERAISE:
    case FOR_ITER:
    case JUMP_BACKWARD:
    case JUMP_BACKWARD_NO_INTERRUPT:
#if PY_VERSION_HEX < 0x030c0000
    case POP_JUMP_BACKWARD_IF_TRUE:
    case POP_JUMP_BACKWARD_IF_FALSE:
    case POP_JUMP_BACKWARD_IF_NONE:
    case POP_JUMP_BACKWARD_IF_NOT_NONE:
#else
    case RETURN_CONST:
#endif
      return true;
    default:
      return false;
  }
}

}  // namespace

bool only_raises(PyObject* bytes, int instruction) {
  const auto* code = reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(bytes));
  const int count = static_cast<int>(PyBytes_GET_SIZE(bytes) / 2);
  std::vector<int> starts{instruction};
  std::unordered_set<int> seen;
  while (!starts.empty()) {
    int at = starts.back(), extended = 0;
    starts.pop_back();
    for (;; ++at) {
      if (at < 0 || at >= count || leads_elsewhere(code[at * 2])) return false;
      if (code[at * 2] == RAISE_VARARGS || !seen.insert(at).second) break;
      const int arg = extended | code[at * 2 + 1];
      extended = code[at * 2] == EXTENDED_ARG ? arg << 8 : 0;
      if (code[at * 2] == JUMP_FORWARD) {
        at += arg;
        continue;
      }
      if (may_jump(code[at * 2])) starts.push_back(at + 1 + arg);
    }
  }
  return true;
}

bool is_caught_within(PyThreadState* state, int depth) {
  PyRef frame = PyRef::steal(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(state)));
  for (; frame && depth > 0; --depth) {
    auto* raw = reinterpret_cast<PyFrameObject*>(frame.get());
    const PyRef code = PyRef::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(raw)));
    auto* object = reinterpret_cast<PyCodeObject*>(code.get());
    const PyRef bytes = python::checked(PyCode_GetCode(object));
    if (is_in_try(object, bytes.get(), PyFrame_GetLasti(raw) / 2)) return true;
    frame = PyRef::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(raw)));
  }
  return false;
}

}  // namespace firesteel::capture
