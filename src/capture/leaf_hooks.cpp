// Takes note of hooks. A leaf's hooks run when its gradient is there, whether they came before or after the forward.
#include "capture/leaf_hooks.h"

#include <algorithm>

#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

thread_local LeafHooks* t_current = nullptr;
thread_local PyObject* t_called = nullptr;

PyObject* hook_member(const char* name) {
  static PyObject* const module = python::checked(PyImport_ImportModule("firesteel._tensor_hooks")).release();
  return python::checked(PyObject_GetAttrString(module, name)).release();
}

// One that a call of the graph leaves, each time it runs.
PyRef call_in_graph(Capture& capture, PyObject* callable, const std::string& name, PyObject* tensor) {
  capture.calls_leaf = true;
  return capture.torch_call(callable, name, python::checked(PyTuple_Pack(1, tensor)));
}

}  // namespace

LeafHooks::LeafHooks(Capture& capture) : capture_(capture), outer_(t_current) { t_current = this; }
LeafHooks::~LeafHooks() { t_current = outer_; }

LeafHooks::Result::Result(PyObject* callable) : before_(t_called) { t_called = callable; }
LeafHooks::Result::~Result() { t_called = before_; }

PyRef LeafHooks::leave(Capture& capture, PyObject* callable, const CallArgs& args) {
  if (!t_current || &t_current->capture_ != &capture || !capture.whole_stretches || capture.unrecorded) return {};
  PyRef name = python::attribute(callable, "__name__");
  const std::string text(name ? python::text_of(name.get()) : "");
  if (text == "retain_grad" && args.values.size() == 1 && !capture.tensor_source(args[0]))
    return call_in_graph(capture, callable, "torch.Tensor.retain_grad", args[0]);
  if (text != "register_hook" && text != "register_post_accumulate_grad_hook") return {};
  if (args.values.size() != 2 || args.keyword_count() || !python::is_tensor(args[0])) return {};
  if (!PyCallable_Check(args[1])) return {};
  const at::Tensor& stand_in = python::unpack(args[0]);
  PyObject* real = capture.real_of(args[0]);
  const bool is_leaf = real && capture.source_of(real) && stand_in.requires_grad() && python::unpack(real).is_leaf() &&
                       python::unpack(real).requires_grad();
  if (is_leaf && t_called == callable) {
    t_current->hooks_.push_back({PyRef::borrow(real), std::move(name), args.values[1]});
    return PyRef::borrow(Py_None);
  }
  static PyObject* const make_hook = hook_member("TensorHook");
  static PyObject* const make_handle = hook_member("Handle");
  PyRef hook;
  {
    Suspended suspended(capture);
    hook = python::checked(PyObject_CallOneArg(make_hook, name.get()));
  }
  if (!is_leaf) call_in_graph(capture, hook.get(), "torch.Tensor." + text, args[0]);
  t_current->hooks_.push_back({is_leaf ? PyRef::borrow(real) : PyRef(), name, args.values[1], hook});
  Suspended suspended(capture);
  return capture.made(python::checked(PyObject_CallFunctionObjArgs(make_handle, hook.get(), args[0], nullptr)));
}

PyRef LeafHooks::hook_of(PyObject* handle) {
  static PyObject* const type = hook_member("Handle");
  return reinterpret_cast<PyObject*>(Py_TYPE(handle)) == type ? python::attribute(handle, "hook") : PyRef();
}

PyObject* LeafHooks::handle_function() {
  static PyObject* const function = hook_member("handle_of");
  return function;
}

PyRef LeafHooks::remove(Capture& capture, PyObject*, CallArgs& args) {
  std::vector<Hook>& hooks = t_current->hooks_;
  auto left = std::find_if(hooks.begin(), hooks.end(), [&](const Hook& one) { return one.hook.get() == args[0]; });
  if (left == hooks.end()) return PyRef::borrow(Py_None);  // gone already
  if (left->tensor) {
    hooks.erase(left);
    return PyRef::borrow(Py_None);
  }
  PyRef method = python::checked(PyObject_GetAttrString(args[0], "remove"));
  return call_in_graph(capture, method.get(), "torch.utils.hooks.RemovableHandle.remove", args[1]);
}

std::vector<LeafHooks::Hook> LeafHooks::left(const Capture& capture) {
  return t_current && &t_current->capture_ == &capture ? t_current->hooks_ : std::vector<Hook>();
}

}  // namespace firesteel::capture
