// Containers of tensors, compared without a look at data.
#pragma once

#include <optional>
#include <string_view>

#include "capture/capture.h"

namespace firesteel::capture {

// Whether two lists, tuples or dicts with tensors in them are equal, as far as that is known by which objects they
// hold; nothing where data decides, and for all other values.
std::optional<bool> equal_without_data(Capture& capture, PyObject* a, PyObject* b);

// list.index, .count, .remove and `in`, where tensors stand among the items or are looked for. Empty for all others.
PyRef search_by_items(Capture& capture, std::string_view method, CallArgs& args);

}  // namespace firesteel::capture
