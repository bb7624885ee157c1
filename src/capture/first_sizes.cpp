// Walks the arguments of a call: tensors and numbers in lists, tuples and dicts.
#include "capture/first_sizes.h"

#include <algorithm>

#include "capture/capture.h"
#include "python/constants.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

constexpr size_t kDeepest = 4;

}  // namespace

void FirstSizes::look(PyObject* value, guards::SourcePath& path, std::vector<Seen>& seen) {
  if (python::is_tensor(value)) {
    const at::Tensor& tensor = python::unpack(value);
    if (guards::is_plain_real(tensor)) seen.push_back({path, tensor.sizes().vec()});
    return;
  }
  if (is_number(value)) {
    seen.push_back({path, PyRef::borrow(value)});
    return;
  }
  if (path.size() >= kDeepest) return;
  auto into = [&](AccessKind kind, PyObject* key, int64_t index, PyObject* item) {
    path.emplace_back(kind, key, index, "");
    look(item, path, seen);
    path.pop_back();
  };
  if (PyList_CheckExact(value) || PyTuple_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
      into(AccessKind::SequenceItem, nullptr, i, PySequence_Fast_GET_ITEM(value, i));
  } else if (PyDict_CheckExact(value)) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *item = nullptr;
    while (PyDict_Next(value, &position, &key, &item)) {
      if (is_guardable_constant(key)) into(AccessKind::DictItem, key, 0, item);
    }
  }
}

std::vector<FirstSizes::Seen> FirstSizes::seen_in(PyObject* const* values, size_t count) {
  std::vector<Seen> seen;
  for (size_t i = 0; i < count; ++i) {
    guards::SourcePath path;
    path.emplace_back(AccessKind::Argument, nullptr, static_cast<int64_t>(i), "");
    look(values[i], path, seen);
  }
  return seen;
}

void FirstSizes::note(PyObject* const* values, size_t count) { seen_ = seen_in(values, count); }

std::vector<guards::SourcePath> FirstSizes::take_changed(PyObject* const* values, size_t count) {
  std::vector<guards::SourcePath> changed;
  const std::vector<Seen> before = std::exchange(seen_, {});
  for (const Seen& now : seen_in(values, count)) {
    auto was = std::find_if(before.begin(), before.end(), [&](const Seen& one) { return one.path == now.path; });
    if (was == before.end() || was->what.index() != now.what.index()) continue;
    if (const auto* number = std::get_if<PyRef>(&now.what)) {
      if (!python::same_constant(number->get(), std::get<PyRef>(was->what).get())) changed.push_back(now.path);
      continue;
    }
    const auto &sizes = std::get<0>(now.what), &others = std::get<0>(was->what);
    for (size_t d = 0; d < sizes.size() && sizes.size() == others.size(); ++d) {
      if (sizes[d] == others[d]) continue;
      guards::SourcePath path = now.path;
      path.push_back(guards::SourceStep::size(static_cast<int64_t>(d), others[d]));
      changed.push_back(std::move(path));
    }
  }
  return changed;
}

}  // namespace firesteel::capture
