// What a program's settings say of sizes and numbers: which stay as they are, and which are open from the first call
// on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "guards/source.h"

namespace firesteel::capture {

// As the program's watcher says before each compilation.
struct SizeSettings {
  bool parameters_change = false;    // of parameters among the arguments: their sizes
  bool changed_take_any = false;     // sizes that are open because they changed may be 0 and 1 as well
  bool ignores_marks = false;        // mark_dynamic() of a size that the code allows one value for is no error
  std::vector<int64_t> open_values;  // sizes and ints that are one of these are open
};
SizeSettings& size_settings();

// Arguments whose sizes are open, and numbers that change, from the first call on: `L['x']`, or a pattern of such, with
// `:0` behind it for one dimension alone. The sizes of unbacked ones may be any at all, 0 and 1 as well.
void set_open_sources(const std::vector<std::string>& patterns, const std::vector<std::string>& unbacked);
constexpr int64_t kAnyDim = -1;
bool is_open_source(const guards::Source& source, int64_t dim = kAnyDim);
bool is_unbacked_source(const guards::Source& source, int64_t dim = kAnyDim);
bool is_open_value(int64_t value);

}  // namespace firesteel::capture
