// Reads the marks that lie on a tensor.
#include "capture/size_marks.h"

#include <algorithm>

#include <fmt/format.h>

#include "guards/source.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::PyRef;

// The dimensions in a set of ints, counted from the front; whoever wrote other things there is not one of ours.
std::set<int32_t> dims_in(PyObject* dict, const char* key, int64_t rank, const std::string& name,
                          std::string& problem) {
  std::set<int32_t> dims;
  PyObject* found = PyDict_GetItemString(dict, key);
  if (!found || !PyAnySet_Check(found)) return dims;
  PyRef items = python::checked(PySequence_List(found));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(items.get(), i);
    if (!PyLong_CheckExact(item)) continue;
    const long long asked = PyLong_AsLongLong(item);
    const long long dim = asked < 0 ? asked + rank : asked;
    if (dim < 0 || dim >= rank) {
      problem = fmt::format("dimension {} of `{}` is marked, which has {} dimensions\n  try: mark one from 0 to {}",
                            asked, name, rank, rank - 1);
      continue;
    }
    dims.insert(static_cast<int32_t>(dim));
  }
  return dims;
}

int64_t bound(PyObject* range, const char* key, int64_t missing) {
  PyRef value = python::attribute(range, key);
  return value && PyLong_CheckExact(value.get()) ? PyLong_AsLongLong(value.get()) : missing;
}

}  // namespace

SizeMarks::SizeMarks(PyObject* tensor, const std::string& name) {
  PyObject* dict = guards::instance_dict(tensor);
  if (!dict || PyDict_GET_SIZE(dict) == 0) return;
  const at::Tensor& marked = python::unpack(tensor);
  const int64_t rank = marked.dim();
  weak_ = dims_in(dict, "_dynamo_weak_dynamic_indices", rank, name, problem_);
  unbacked_ = dims_in(dict, "_dynamo_unbacked_indices", rank, name, problem_);
  unbacked_.merge(dims_in(dict, "_dynamo_strict_unbacked_indices", rank, name, problem_));
  static_ = dims_in(dict, "_dynamo_static_indices", rank, name, problem_);
  PyObject* address = PyDict_GetItemString(dict, "_dynamo_static_input_type");
  fixed_ = address && PyUnicode_Check(address) && python::text_of(address) == "guarded";
  for (int32_t dim : dims_in(dict, "_dynamo_dynamic_indices", rank, name, problem_)) dynamic_.emplace(dim, Range{});
  PyObject* ranges = PyDict_GetItemString(dict, "_dynamo_dynamic_range");
  if (!ranges || !PyAnySet_Check(ranges)) return;
  PyRef items = python::checked(PySequence_List(ranges));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(items.get(), i);
    int64_t dim = bound(item, "dim", -1);
    if (dim < 0) dim += rank;
    auto found = dynamic_.find(static_cast<int32_t>(dim));
    if (found == dynamic_.end()) continue;
    const int64_t least = bound(item, "min", 0), most = bound(item, "max", INT64_MAX);
    const int64_t size = marked.size(dim);
    if (size < least || size > most) {
      problem_ = fmt::format(
          "dimension {} of `{}` is {}, outside the range that mark_dynamic() gives it: {} to {}\n  try: a "
          "wider range",
          dim, name, size, least, most == INT64_MAX ? "any" : std::to_string(most));
    }
    found->second = {std::max<int64_t>(least, 2), most};
  }
}

const SizeMarks::Range* SizeMarks::dynamic(int32_t dim) const {
  auto found = dynamic_.find(dim);
  return found == dynamic_.end() ? nullptr : &found->second;
}

}  // namespace firesteel::capture
