// How often one place in the code may be compiled: what compile() was told, or what a watcher says at that moment.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "guards/source.h"
#include "python/py_ref.h"

namespace firesteel::capture {

constexpr size_t kUsualLimit = 8;

struct Allowance {
  size_t limit = kUsualLimit;
  bool fails = false;  // at the limit: an error in place of running eagerly
};

// Numbers that are compiled for one by one, however often they change: as the program's watcher says.
struct FixedNumbers {
  bool ints = false, floats = false;
  bool global_ints = false, module_ints = false;  // for backends that are functions
};
FixedNumbers& fixed_numbers();

// Numbers and sizes that data gives are captured also where graphs may break: as the program's watcher says.
struct CapturedData {
  bool numbers = false, sizes = false;
  bool asserts = false;  // an assertion about a tensor is an operator, and no branch
};
CapturedData& captured_data();

// For backends that are functions all tensors are inputs, whether arguments lead to them or globals and attributes:
// others in their places need no compilation.
bool& lifts_tensors();

// None: nobody is asked any more.
void set_compile_watcher(PyObject* watcher);

// Asked where nothing compiled fits. `own_limit`: compile()'s, 0 where it was told none; `held`: what is compiled
// already; `keeps_numbers`: compile(dynamic=False); `why` tells which guard failed. Throws what the watcher raises.
Allowance ask_allowance(size_t own_limit, const std::string& function, size_t held, bool keeps_numbers,
                        const std::function<std::string()>& why);

}  // namespace firesteel::capture
