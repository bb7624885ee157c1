// Reads marks from where mark_dynamic() and its kin leave them: attributes of the tensor, sets of dimensions.
#include "guards/size_mark_facts.h"

#include "capture/cpython/frame_shim.h"
#include "guards/source.h"

namespace firesteel::guards {
namespace {

constexpr uint64_t kDims = 63;
constexpr uint64_t kIsThere = uint64_t{1} << kDims;  // the mark has been set, for no dimension maybe

constexpr const char* kNames[] = {"_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices", "_dynamo_unbacked_indices",
                                  "_dynamo_strict_unbacked_indices", "_dynamo_static_indices"};

PyObject* const* names() {
  static PyObject* const* made = [] {
    auto* list = new PyObject*[std::size(kNames)];
    for (size_t i = 0; i < std::size(kNames); ++i) list[i] = PyUnicode_InternFromString(kNames[i]);
    return list;
  }();
  return made;
}

}  // namespace

SizeMarkFacts::Dims SizeMarkFacts::dims_of(PyObject* dict) {
  static_assert(std::size(kNames) == kKinds);
  Dims dims{};
  for (size_t kind = 0; kind < kKinds; ++kind) {
    PyObject* marked = PyDict_GetItemWithError(dict, names()[kind]);
    if (!marked || !PyAnySet_Check(marked)) continue;
    dims[kind] |= kIsThere;
    Py_ssize_t position = 0;
    PyObject* dim = nullptr;
    Py_hash_t hash = 0;
    while (_PySet_NextEntry(marked, &position, &dim, &hash)) {
      if (PyLong_CheckExact(dim)) dims[kind] |= uint64_t{1} << (static_cast<uint64_t>(PyLong_AsLongLong(dim)) % kDims);
    }
  }
  if (PyErr_Occurred()) PyErr_Clear();  // a dimension beyond all ints
  return dims;
}

SizeMarkFacts::SizeMarkFacts(PyObject* tensor) {
  if (fs_has_attributes(tensor)) dims_ = dims_of(instance_dict(tensor));
}

bool SizeMarkFacts::allow(PyObject* tensor) const {
  if (!fs_has_attributes(tensor)) return true;
  PyObject* dict = instance_dict(tensor);
  const uint64_t version = dict_version(dict);
  if (version != 0 && version == allowed_version_) return true;
  const Dims dims = dims_of(dict);
  // A set that is added to leaves the dict as it is.
  if (dims == Dims{}) allowed_version_ = version;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    if (dims[kind] & ~dims_[kind]) return false;
  }
  return true;
}

}  // namespace firesteel::guards
