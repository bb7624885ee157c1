// Takes the context of a torch.autograd.Function apart when its backward is traced, and makes another at run time.
#include "python/python_backward.h"

#include <optional>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_cpp_function.h>

#include "aot/opaque_backward.h"
#include "aot/symbols.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/pytree.h"
#include "python/tensor_objects.h"
#include "python/traced_tensors.h"

namespace firesteel::python {
namespace {

constexpr const char* kApply = "apply";                // what the engine looks up on the context
constexpr const char* kListMetadata = "_pt_metadata";  // where torch keeps how lists of tensors nest; never changed
constexpr int kDeepest = 16;

// Tensors and constants, and plain containers of them: what can be kept, and made again for every run.
bool is_plain(PyObject* value, int depth = 0) {
  if (is_exact_tensor(value) || is_plain_constant(value)) return true;
  if (depth == kDeepest) return false;
  if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
      if (!is_plain(PySequence_Fast_GET_ITEM(value, i), depth + 1)) return false;
    }
    return true;
  }
  if (!PyDict_CheckExact(value)) return false;
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *item = nullptr;
  while (PyDict_Next(value, &position, &key, &item)) {
    if (!PyUnicode_CheckExact(key) || !is_plain(item, depth + 1)) return false;
  }
  return true;
}

std::vector<at::Tensor> unpack_all(const std::vector<PyRef>& objects) {
  std::vector<at::Tensor> tensors;
  for (const PyRef& object : objects) tensors.push_back(object.get() == Py_None ? at::Tensor() : unpack(object.get()));
  return tensors;
}

// The items of a tuple, or the one object where it is none: what a backward may return.
std::vector<PyRef> items_of(PyObject* result) {
  std::vector<PyRef> items;
  if (!PyTuple_Check(result)) return {PyRef::borrow(result)};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); ++i) items.push_back(PyRef::borrow(PyTuple_GET_ITEM(result, i)));
  return items;
}

PyRef new_namespace(PyObject* attributes) {
  PyRef types = checked(PyImport_ImportModule("types"));
  PyRef make = checked(PyObject_GetAttrString(types.get(), "SimpleNamespace"));
  PyRef none = checked(PyTuple_New(0));
  return checked(PyObject_Call(make.get(), none.get(), attributes));
}

class PythonBackward final : public OpaqueBackward {
 public:
  struct Objects {
    PyRef function;  // called with a context and the gradients
    PyRef needs_input_grad;
    PyRef list_metadata;  // may be null
  };

  PythonBackward(Objects objects, Tree context, std::vector<size_t> places)
      : objects_(share_across_threads(std::move(objects))), context_(std::move(context)), places_(std::move(places)) {}

  std::vector<at::Tensor> run(const std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& saved) override {
    const Gil gil;
    std::vector<PyRef> leaves;
    for (const at::Tensor& tensor : saved) leaves.push_back(wrap(tensor));
    size_t next = 0;
    PyRef parts = unflatten(context_, leaves, next);
    leaves.clear();
    PyObject* attributes = PyTuple_GET_ITEM(parts.get(), 1);
    check(PyDict_SetItemString(attributes, "saved_tensors", PyTuple_GET_ITEM(parts.get(), 0)) == 0);
    check(PyDict_SetItemString(attributes, "needs_input_grad", objects_->needs_input_grad.get()) == 0);
    if (objects_->list_metadata)
      check(PyDict_SetItemString(attributes, kListMetadata, objects_->list_metadata.get()) == 0);
    PyRef arguments = checked(PyTuple_New(1 + static_cast<Py_ssize_t>(gradients.size())));
    PyTuple_SET_ITEM(arguments.get(), 0, new_namespace(attributes).release());
    for (size_t i = 0; i < gradients.size(); ++i) {
      PyRef gradient = gradients[i].defined() ? wrap(gradients[i]) : PyRef::borrow(Py_None);
      PyTuple_SET_ITEM(arguments.get(), 1 + static_cast<Py_ssize_t>(i), gradient.release());
    }
    parts = {};
    PyRef result = checked(PyObject_Call(objects_->function.get(), arguments.get(), nullptr));
    arguments = {};
    return chosen(result);
  }

  // The gradients as the engine takes them from a backward: one for each argument of the forward.
  PyRef spread(const std::vector<at::Tensor>& gradients) const {
    const Py_ssize_t count = PyTuple_GET_SIZE(objects_->needs_input_grad.get());
    PyRef all = checked(PyTuple_New(count));
    for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(all.get(), i, PyRef::borrow(Py_None).release());
    for (size_t i = 0; i < places_.size(); ++i)
      check(PyTuple_SetItem(all.get(), static_cast<Py_ssize_t>(places_[i]), wrap(gradients[i]).release()) == 0);
    return all;
  }

 private:
  std::vector<at::Tensor> chosen(const PyRef& result) const {
    const std::vector<PyRef> items = items_of(result.get());
    const auto expected = static_cast<size_t>(PyTuple_GET_SIZE(objects_->needs_input_grad.get()));
    // As the engine has it: more are fine where they are None.
    bool fits = items.size() >= expected;
    for (size_t i = expected; i < items.size(); ++i) fits = fits && items[i].get() == Py_None;
    TORCH_CHECK(fits, "function ", name, " returned an incorrect number of gradients (expected ", expected, ", got ",
                items.size(), ")");
    std::vector<at::Tensor> gradients;
    for (size_t place : places_) {
      PyObject* item = items[place].get();
      TORCH_CHECK(item == Py_None || is_tensor(item), "expected Variable or None (got ", Py_TYPE(item)->tp_name, ")");
      gradients.push_back(item == Py_None ? at::Tensor() : unpack(item));
    }
    return gradients;
  }

  std::shared_ptr<Objects> objects_;
  Tree context_;                // of (saved tensors, attributes)
  std::vector<size_t> places_;  // of the results among the arguments of the forward
};

struct Described {
  c10::intrusive_ptr<PythonBackward> backward;
  std::vector<at::Tensor> saved;
};

bool is_true(PyObject* object, const char* name) {
  PyRef value = attribute(object, name);
  return value && PyObject_IsTrue(value.get()) != 0;
}

// Nothing where the context holds what cannot be kept for another run, or works in a way of its own.
std::optional<Described> describe(PyObject* context, torch::autograd::Node& node) {
  PyRef forward_class = attribute(context, "_forward_cls"), own = attribute(context, "__dict__");
  PyRef needs = attribute(context, "needs_input_grad");
  if (!forward_class || !own || !PyDict_Check(own.get()) || !needs || !PyTuple_Check(needs.get())) return {};
  if (is_true(forward_class.get(), "boxed_grads_call") || is_true(forward_class.get(), "clear_saved_tensors_on_access"))
    return {};
  PyRef choose = attribute(context, "_get_user_fn"), saved = attribute(context, "saved_tensors");
  if (!choose || !saved) return {};
  PyRef function = PyRef::steal(PyObject_CallNoArgs(choose.get()));
  if (!function) PyErr_Clear();
  PyRef attributes = checked(PyDict_Copy(own.get()));
  PyRef metadata = PyRef::borrow(PyDict_GetItemString(attributes.get(), kListMetadata));
  if (metadata) check(PyDict_DelItemString(attributes.get(), kListMetadata) == 0);
  PyRef parts = checked(PyTuple_Pack(2, saved.get(), attributes.get()));
  if (!function || !is_plain(parts.get())) return {};

  std::vector<size_t> places;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(needs.get()); ++i) {
    if (PyTuple_GET_ITEM(needs.get(), i) == Py_True) places.push_back(static_cast<size_t>(i));
  }
  std::vector<Type> types;
  for (const torch::autograd::Edge& edge : node.next_edges()) {
    if (!edge.is_valid()) continue;
    const torch::autograd::InputMetadata& like = edge.function->input_metadata(edge.input_nr);
    std::vector<Dim> sizes;
    for (const c10::SymInt& size : like.shape_as_dim_vector()) sizes.push_back(dim_of(size));
    types.push_back(
        Type::tensor(c10::typeMetaToScalarType(like.dtype()), like.device(), sizes, contiguous_strides(sizes)));
  }
  if (types.size() != places.size()) return {};
  Flat flat = flatten_input(parts.get(), "ctx");
  Described described;
  described.backward = c10::make_intrusive<PythonBackward>(
      PythonBackward::Objects{std::move(function), std::move(needs), std::move(metadata)}, std::move(flat.tree),
      std::move(places));
  described.backward->name = node.name();
  described.backward->may_miss.assign(types.size(), false);
  described.backward->results = std::move(types);
  described.saved = unpack_all(flat.leaves);
  return described;
}

// The context and its node, both borrowed: what holds this is an attribute of the context, which lives as long as they.
struct Watched {
  PyObject* context;
  torch::autograd::Node* node;
  std::weak_ptr<BackwardFollower> follower;
};
constexpr const char* kCapsule = "firesteel.watched_backward";

PyObject* apply_watched(PyObject* self, PyObject* arguments) {
  return at_border<PyObject*>(nullptr, [&]() -> PyObject* {
    const Watched watched = *static_cast<Watched*>(PyCapsule_GetPointer(self, kCapsule));
    const PyRef context = PyRef::borrow(watched.context), keep = PyRef::borrow(self);
    check(PyObject_DelAttrString(context.get(), kApply) == 0);
    const PyRef apply = checked(PyObject_GetAttrString(context.get(), kApply));
    const std::shared_ptr<BackwardFollower> follower = watched.follower.lock();
    if (follower) follower->meet();
    const size_t writes = follower ? follower->writes() : 0;
    BackwardTry attempt(unpack_all(items_of(arguments)));
    if (PyRef result = PyRef::steal(PyObject_Call(apply.get(), arguments, nullptr))) {
      if (!follower || follower->writes() == writes) return result.release();
      follower->give_up_for_writes(watched.node->name());
    }
    const bool gave_up = follower && follower->forgive();
    std::optional<Described> described;
    {
      // Only now: some contexts hand out what was saved once.
      const ErrorAside failure;
      described = describe(context.get(), *watched.node);
      if (!described || !attempt.undo(described->saved, gave_up)) {
        if (gave_up) follower->insist();
        return nullptr;
      }
    }
    PyErr_Clear();
    return described->backward->spread(attempt.call(described->backward, described->saved)).release();
  });
}

PyMethodDef g_apply = {kApply, &apply_watched, METH_VARARGS, nullptr};

}  // namespace

void watch_backward(torch::autograd::Node& node, std::weak_ptr<BackwardFollower> follower) {
  const Gil gil;
  PyRef context = checked(torch::autograd::functionToPyObject(node.getptr()));
  if (!attribute(context.get(), "_forward_cls")) return;
  auto watched = std::make_unique<Watched>(Watched{context.get(), &node, std::move(follower)});
  PyRef capsule = checked(PyCapsule_New(watched.get(), kCapsule, [](PyObject* held) {
    const std::unique_ptr<Watched> gone(static_cast<Watched*>(PyCapsule_GetPointer(held, kCapsule)));
  }));
  [[maybe_unused]] const Watched* capsules = watched.release();
  PyRef apply = checked(PyCFunction_New(&g_apply, capsule.get()));
  check(PyObject_SetAttrString(context.get(), kApply, apply.get()) == 0);
}

}  // namespace firesteel::python
