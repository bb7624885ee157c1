// Comparisons of numbers that change, as long as nobody has looked at their answer.
//
// Such an answer is a `torch.SymBool` that lives on the interpreter's stack, in local variables, and in tuples, lists
// and dicts that were made of it there. It may be handed on to functions that are followed or nonstrict, and be given
// back. Every other instruction gets its operands closed: the answer is decided, guarded, and put in its place.
#include "aot/size_node.h"
#include "aot/trace.h"
#include "capture/callables.h"
#include "capture/capture.h"
#include "capture/kept_numbers.h"
#include "capture/marked_function.h"
#include "capture/marks.h"
#include "python/errors.h"

namespace firesteel::capture {
namespace {

using python::checked;

// Calls `visit(item)` for what a tuple, list or dict holds; what it gives, if anything, takes the item's place. A tuple
// here is one that the captured code has made: nobody outside has seen it.
template <class F>
void each_item(PyObject* container, F&& visit) {
  if (PyDict_Check(container)) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(container, &position, &key, &value)) {
      if (PyRef put = visit(value)) python::check(PyDict_SetItem(container, key, put.get()) == 0);
    }
    return;
  }
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(container); ++i) {
    PyRef put = visit(PySequence_Fast_GET_ITEM(container, i));
    if (!put) continue;
    PyObject** place = &PySequence_Fast_ITEMS(container)[i];
    const PyRef before = PyRef::steal(std::exchange(*place, put.release()));
  }
}

}  // namespace

PyRef Capture::new_open_truth(const c10::SymNode& node, OpenTruth truth) {
  keep_numbers();
  PyRef object = made(torch_symbol(*this, "SymBool", node));
  truth.object = object;
  truths_.emplace(object.get(), std::move(truth));
  return object;
}

PyRef Capture::open_truth(PyObject* function, PyObject* first, PyObject* second) {
  if (concrete || !open_numbers_ || settles_at_once_ || !trace_symbols()) return {};
  const std::shared_ptr<Symbols> symbols = trace_symbols()->shared_from_this();
  if (const std::optional<Relation> relation = size_relation(function, first, second)) {
    if (mentions_data(*relation)) return {};
    if (const std::optional<bool> known = symbols->known(*relation)) return PyRef::borrow(*known ? Py_True : Py_False);
    return new_open_truth(SizeNode::of(symbols, *relation),
                          {source_of_relation(*relation), holds_now(*relation), *relation});
  }
  if (is_data_number(first) || is_data_number(second)) return {};
  const Source *a = nullptr, *b = nullptr;
  if (!computes(first, second, a, b)) return {};
  const PyRef answer = checked(PyObject_CallFunctionObjArgs(function, first, second, nullptr));
  if (!PyBool_Check(answer.get())) return {};
  const bool holds = answer.get() == Py_True;
  const Source* source = sources.computed(function, a, b);
  return new_open_truth(SizeNode::of(symbols, FloatTruth{{holds ? 1.0 : 0.0, source, /*is_truth=*/true}}),
                        {source, holds, std::nullopt});
}

PyRef Capture::adopt_truth(const c10::SymBool& answer) {
  const c10::SymNode node = answer.toSymNodeImpl();
  const auto* ours = dynamic_cast<const SizeNode*>(node.get());
  auto decided = [&] { return PyRef::borrow(answer.guard_bool(__FILE__, __LINE__) ? Py_True : Py_False); };
  if (!ours) return decided();
  if (const auto* relation = std::get_if<Relation>(&ours->content())) {
    if (mentions_data(*relation) || trace_symbols()->known(*relation)) return decided();
    return new_open_truth(node, {source_of_relation(*relation), holds_now(*relation), *relation});
  }
  const auto* asked = std::get_if<FloatTruth>(&ours->content());
  if (!asked || !asked->number.source) return decided();
  return new_open_truth(node,
                        {static_cast<const Source*>(asked->number.source), asked->number.hint != 0, std::nullopt});
}

const Source* Capture::truth_source(PyObject* value) const {
  auto found = truths_.find(value);
  return found == truths_.end() ? nullptr : found->second.source;
}

bool Capture::decide_truth(const OpenTruth& truth) {
  if (truth.relation && trace_symbols()) return trace_symbols()->decide(*truth.relation);
  add_guard({GuardKind::Identity, truth.source, PyRef::borrow(truth.answer ? Py_True : Py_False)});
  return truth.answer;
}

bool Capture::holds_truth(PyObject* value) const {
  return value && !truths_.empty() && (truths_.count(value) || hold_truths_.count(value));
}

void Capture::note_truths(PyObject* container, bool deep) {
  if (truths_.empty() || !container || holds_truth(container)) return;
  if (!PyTuple_CheckExact(container) && !PyList_CheckExact(container) && !PyDict_CheckExact(container)) return;
  bool found = false;
  each_item(container, [&](PyObject* item) {
    if (deep) note_truths(item, true);
    found = found || holds_truth(item);
    return PyRef();
  });
  if (found && hold_truths_.insert(container).second) held_.push_back(PyRef::borrow(container));
}

PyRef Capture::closed(PyRef value) {
  if (!holds_truth(value.get())) return value;
  if (auto found = truths_.find(value.get()); found != truths_.end())
    return PyRef::borrow(decide_truth(found->second) ? Py_True : Py_False);
  hold_truths_.erase(value.get());
  each_item(value.get(), [&](PyObject* item) {
    if (!holds_truth(item)) return PyRef();
    PyRef put = closed(PyRef::borrow(item));
    return put.get() == item ? PyRef() : put;
  });
  return value;
}

bool hands_truths_on(PyObject* callable) {
  while (PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
  if (marked_callable(callable)) return mark_on(callable) == FunctionMark::Nonstrict;
  if (is_nn_module(callable)) {
    PyObject* found = _PyType_Lookup(Py_TYPE(callable), interned("__call__").get());
    return found && PyFunction_Check(found);
  }
  if (!PyFunction_Check(callable) || torch_leaf(callable) || builtin_rule(callable)) return false;
  if (mark_of(callable).mark != Mark::None) return false;
  const auto* code = reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(callable)->func_code);
  return !(code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR));
}

}  // namespace firesteel::capture
