// Which sizes and numbers among the arguments a graph leaves open: those that are marked, specified, or all.
#include <fmt/format.h>

#include "capture/allowance.h"
#include "capture/attempt.h"
#include "capture/result_kinds.h"
#include "capture/size_marks.h"
#include "capture/size_settings.h"
#include "capture/size_spec.h"
#include "capture/wrapper_tensors.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {

// compile(dynamic=True) holds for numbers among the arguments as well; 0 and 1 are cases of their own, as sizes are.
bool Attempt::opens_number(PyObject* value) const {
  if (backend_.sizes != SizePolicy::All) return false;
  if (PyFloat_CheckExact(value)) return !fixed_numbers().floats;
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
  return !fixed_numbers().ints && !overflow && number != 0 && number != 1;
}

void Attempt::open_sizes() {
  // A shapes_spec speaks of the arguments of the call; behind a graph break all sizes are open.
  const bool specified = backend_.spec && start_.shape;
  for (size_t i = 0; i < capture.arguments.size(); ++i) {
    PyObject* tensor = capture.arguments[i].get();
    if (is_wrapper(tensor)) continue;
    specified ? open_as_specified(tensor, capture.input_sources[i]) : open_as_marked(tensor, capture.input_sources[i]);
  }
}

void Attempt::open_as_marked(PyObject* tensor, const Source* source) {
  const SizeMarks marks(tensor, source->str());
  if (!marks.problem().empty()) capture.refuse("ControlError", marks.problem());
  if (marks.is_fixed()) capture.add_guard({GuardKind::Identity, source, PyRef::borrow(tensor)});
  const at::Tensor& marked = python::unpack(tensor);
  const auto rank = static_cast<int32_t>(marked.dim());
  const bool keeps_sizes = is_parameter(tensor) && !size_settings().parameters_change;
  const bool takes_all = backend_.sizes == SizePolicy::All || backend_.spec;
  auto open = [&](DynamicDim dim) {
    dim.apart = capture.keeps_stacks;
    capture.expect_size(source, dim);
  };
  for (int32_t d = 0; d < rank; ++d) {
    const bool named = is_open_source(*source, d) || is_open_value(marked.size(d));
    if (keeps_sizes && !named) {
      capture.keep_size(source, d);
    } else if (marks.is_unbacked(d) || is_unbacked_source(*source, d)) {
      open({d, 0});
    } else if (const SizeMarks::Range* range = marks.dynamic(d)) {
      open({d, range->least, range->most});
      capture.require_open(source, d, /*by_mark=*/true);
    } else if (marks.is_static(d)) {
      capture.keep_size(source, d);
    } else if (named || marks.may_be_dynamic(d)) {
      open({d});
    } else if (takes_all) {
      capture.expect_size(source, {d});
    }
  }
}

void Attempt::open_as_specified(PyObject* object, const Source* source) {
  const std::string name = source->str();
  auto found = backend_.spec->tensors.find(name);
  if (found == backend_.spec->tensors.end()) return;
  const at::Tensor& tensor = python::unpack(object);
  const std::vector<SizeSpec::Size>& sizes = found->second;
  if (static_cast<int64_t>(sizes.size()) != tensor.dim()) {
    capture.refuse("ControlError",
                   fmt::format("shapes_spec gives `{}` {} dimensions, and it has {}\n  try: a TensorSpec "
                               "with one entry a dimension",
                               name, sizes.size(), tensor.dim()));
  }
  for (int32_t d = 0; d < tensor.dim(); ++d) {
    const SizeSpec::Size& size = sizes[d];
    if (tensor.size(d) < size.least || tensor.size(d) > size.most) {
      capture.refuse(
          "ControlError",
          fmt::format("dimension {} of `{}` is {}, and shapes_spec allows {} to {}\n  try: a wider range", d, name,
                      tensor.size(d), size.least, size.most == INT64_MAX ? "any" : std::to_string(size.most)));
    }
    if (!size.open) continue;
    capture.expect_size(source, {d, std::max<int64_t>(size.least, 2), size.most});
    capture.require_open(source, d, /*by_mark=*/false);
  }
}

}  // namespace firesteel::capture
