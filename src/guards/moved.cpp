// What a miss teaches: which tensors, numbers and sizes are others than they were, and the ways there.
#include "guards/guard_program.h"

#include <algorithm>

#include <structmember.h>

#include "capture/cpython/frame_shim.h"
#include "python/constants.h"
#include "python/tensor_objects.h"

namespace firesteel::guards {
namespace {

// The descriptor of a slot, known by its place in objects of the class.
PyObject* member_at(PyTypeObject* type, int64_t offset) {
  Py_ssize_t position = 0;
  PyObject *name = nullptr, *found = nullptr;
  while (PyDict_Next(fs_type_dict(type), &position, &name, &found)) {
    if (Py_IS_TYPE(found, &PyMemberDescr_Type) &&
        reinterpret_cast<PyMemberDescrObject*>(found)->d_member->offset == offset)
      return found;
  }
  return nullptr;
}

}  // namespace

SourcePath GuardProgram::path_to(size_t at) const {
  SourcePath path;
  for (;; at = steps_[at].from) {
    const Step& step = steps_[at];
    PyObject* key = step.key;
    int64_t index = step.index;
    if (key && holdings_.has_lost(key))
      return {};  // it is dying, and a reference that comes and goes would end it twice
    if (step.kind == AccessKind::Member) {
      key = member_at(reinterpret_cast<PyTypeObject*>(key), std::exchange(index, 0));
      if (!key) return {};
    }
    path.insert(path.begin(), SourceStep(step.kind, key, index, step.is_root ? texts_[at] : ""));
    if (step.is_root) return path;
  }
}

namespace {

// From the same root by the same kinds of steps: `cache.layers[0].keys` and `cache.layers[3].values`.
bool lie_alike(const SourcePath& a, const SourcePath& b) {
  return a.size() == b.size() && !a.empty() && a[0] == b[0] &&
         std::equal(a.begin(), a.end(), b.begin(),
                    [](const SourceStep& x, const SourceStep& y) { return x.kind == y.kind; });
}

}  // namespace

std::vector<GuardProgram::LostTensor> GuardProgram::lost_tensors() const {
  std::vector<LostTensor> all, lost;
  std::vector<bool> gone;
  for (const Check& check : checks_) {
    if (check.kind != GuardKind::Identity || !check.number) continue;
    LostTensor tensor{path_to(check.slot), nullptr};
    if (tensor.path.empty()) continue;
    const Step& step = steps_[check.slot];
    for (uint32_t g = step.first_guard; g < step.last_guard; ++g) {
      if (checks_[g].kind == GuardKind::Tensor) tensor.facts = std::make_shared<TensorFacts>(*checks_[g].tensor);
    }
    gone.push_back(holdings_.has_lost(check.expected));
    all.push_back(std::move(tensor));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    bool alike = gone[i];
    for (size_t k = 0; k < all.size() && !alike; ++k) alike = gone[k] && lie_alike(all[i].path, all[k].path);
    if (alike) lost.push_back(all[i]);
  }
  return lost;
}

std::string GuardProgram::lost_name() const {
  for (const Check& check : checks_) {
    if (check.expected && holdings_.has_lost(check.expected)) return texts_[check.slot];
  }
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].key && holdings_.has_lost(steps_[i].key)) return texts_[i];
  }
  return {};
}

bool GuardProgram::is_other_tensor(const Check& check, PyObject* value) const {
  return check.kind == GuardKind::Identity && check.number && python::is_exact_tensor(check.expected) &&
         python::is_exact_tensor(value);
}

GuardProgram::Moved GuardProgram::moved(PyObject* const* arguments, PyObject* function, bool loosely) const {
  Moved found;
  Slots slots;
  slots.values.resize(steps_.size());
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const bool reachable = step.is_root || (slots[step.from] && (!step.has_second || slots[step.second]));
    PyObject* value = slots.values[i] = reachable ? walk(step, arguments, function, slots) : nullptr;
    if (!value) {
      found.all_else_holds &= step.kind == AccessKind::InstanceDict && all_absent(step);
      continue;
    }
    for (uint32_t g = step.first_guard; g < step.last_guard; ++g) {
      const Check& check = checks_[g];
      if (holds(check, value, slots)) continue;
      const std::vector<SourcePath> sizes = other_sizes(i, value, loosely);
      found.sizes.insert(found.sizes.end(), sizes.begin(), sizes.end());
      if (check.kind == GuardKind::Tensor && !sizes.empty()) break;
      if (const std::vector<SourcePath> parts = other_parts(i, check, value); !parts.empty()) {
        found.numbers.insert(found.numbers.end(), parts.begin(), parts.end());
        break;
      }
      const bool number = check.kind == GuardKind::Constant && Py_TYPE(check.expected) == Py_TYPE(value) &&
                          (PyLong_CheckExact(value) || PyFloat_CheckExact(value));
      SourcePath path = number || is_other_tensor(check, value) ? path_to(i) : SourcePath();
      found.all_else_holds &= !path.empty();
      if (path.empty()) continue;
      (number ? found.numbers : found.tensors).push_back(std::move(path));
      break;
    }
  }
  for (size_t g = classes_begin_; g < checks_.size(); ++g) {
    // Sizes that were left open may be any as far as this is concerned.
    if (checks_[g].kind != GuardKind::Sizes) found.all_else_holds &= holds(checks_[g], nullptr, slots);
  }
  return found;
}

// The ways to ints of a slice or a torch.Size that are others than they were, where that is all there is.
std::vector<SourcePath> GuardProgram::other_parts(size_t step, const Check& check, PyObject* value) const {
  std::vector<SourcePath> paths;
  PyObject* before = check.expected;
  if (check.kind != GuardKind::Constant || Py_TYPE(before) != Py_TYPE(value)) return paths;
  std::vector<std::pair<PyObject*, PyObject*>> parts;
  if (PySlice_Check(value)) {
    auto *then = reinterpret_cast<PySliceObject*>(before), *now = reinterpret_cast<PySliceObject*>(value);
    parts = {{then->start, now->start}, {then->stop, now->stop}, {then->step, now->step}};
  } else if (PyTuple_Check(value) && PyTuple_GET_SIZE(value) == PyTuple_GET_SIZE(before)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
      parts.emplace_back(PyTuple_GET_ITEM(before, i), PyTuple_GET_ITEM(value, i));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [then, now] = parts[i];
    if (python::same_constant(then, now)) continue;
    SourcePath path = PyLong_CheckExact(then) && PyLong_CheckExact(now) ? path_to(step) : SourcePath();
    if (path.empty()) return {};
    const bool is_slice = PySlice_Check(value);
    path.emplace_back(is_slice ? AccessKind::Member : AccessKind::SequenceItem, is_slice ? slice_member(i) : nullptr,
                      is_slice ? 0 : static_cast<int64_t>(i), "");
    paths.push_back(std::move(path));
  }
  return paths;
}

// The ways to sizes that are others than they were.
std::vector<SourcePath> GuardProgram::other_sizes(size_t step, PyObject* value, bool loosely) const {
  std::vector<SourcePath> paths;
  if (!python::is_tensor(value)) return paths;
  for (uint32_t g = steps_[step].first_guard; g < steps_[step].last_guard; ++g) {
    if (checks_[g].kind != GuardKind::Tensor) continue;
    const TensorFacts& facts = *checks_[g].tensor;
    for (int32_t dim : facts.other_sizes(python::unpack(value), loosely)) {
      SourcePath path = path_to(step);
      if (path.empty()) continue;
      const bool was_there = static_cast<size_t>(dim) < facts.sizes.size();
      path.push_back(SourceStep::size(dim, was_there ? facts.sizes[dim] : TensorFacts::kOpen));
      paths.push_back(std::move(path));
    }
  }
  return paths;
}

}  // namespace firesteel::guards
