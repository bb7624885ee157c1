// Takes note of hooks. A leaf's hooks run when its gradient is there, whether they came before or after the forward.
#include "capture/leaf_hooks.h"

#include "capture/callable_objects.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

thread_local LeafHooks* t_current = nullptr;
thread_local PyObject* t_called = nullptr;

}  // namespace

LeafHooks::LeafHooks(Capture& capture) : capture_(capture), outer_(t_current) { t_current = this; }
LeafHooks::~LeafHooks() { t_current = outer_; }

LeafHooks::Result::Result(PyObject* callable) : before_(t_called) { t_called = callable; }
LeafHooks::Result::~Result() { t_called = before_; }

PyRef LeafHooks::leave(Capture& capture, PyObject* callable, const CallArgs& args) {
  if (!t_current || &t_current->capture_ != &capture || t_called != callable || !capture.whole_stretches) return {};
  PyRef name = python::attribute(callable, "__name__");
  const std::string_view text = name ? python::text_of(name.get()) : "";
  if (text != "register_hook" && text != "register_post_accumulate_grad_hook") return {};
  if (args.values.size() != 2 || args.keyword_count() || !python::is_tensor(args[0])) return {};
  PyObject* real = capture.real_of(args[0]);
  if (!real || !capture.source_of(real)) return {};
  const at::Tensor& tensor = python::unpack(real);
  if (!tensor.is_leaf() || !tensor.requires_grad() || !python::unpack(args[0]).requires_grad()) return {};
  const bool is_callable = PyFunction_Check(args[1]) || PyMethod_Check(args[1]) || is_partial(args[1]);
  if (!is_callable) return {};
  t_current->hooks_.push_back({PyRef::borrow(real), std::move(name), args.values[1]});
  return PyRef::borrow(Py_None);
}

std::vector<LeafHooks::Hook> LeafHooks::left(const Capture& capture) {
  return t_current && &t_current->capture_ == &capture ? t_current->hooks_ : std::vector<Hook>();
}

}  // namespace firesteel::capture
