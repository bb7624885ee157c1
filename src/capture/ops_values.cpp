// Instructions that compute: operators, comparisons, items.
#include <array>

#include <fmt/format.h>

#include "capture/builtin_rules.h"
#include "capture/callables.h"
#include "capture/comparisons.h"
#include "capture/frame_interpreter.h"
#include "capture/identities.h"
#include "capture/tensor_text.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

PyObject* power(PyObject* a, PyObject* b) { return PyNumber_Power(a, b, Py_None); }
PyObject* inplace_power(PyObject* a, PyObject* b) { return PyNumber_InPlacePower(a, b, Py_None); }

struct BinaryRow {
  const char* name;  // in the operator module
  PyObject* (*run)(PyObject*, PyObject*);
};
// In the order of BINARY_OP's argument: the plain ones, then those that assign.
constexpr auto kBinary = std::to_array<BinaryRow>({
    {"add", PyNumber_Add},
    {"and_", PyNumber_And},
    {"floordiv", PyNumber_FloorDivide},
    {"lshift", PyNumber_Lshift},
    {"matmul", PyNumber_MatrixMultiply},
    {"mul", PyNumber_Multiply},
    {"mod", PyNumber_Remainder},
    {"or_", PyNumber_Or},
    {"pow", power},
    {"rshift", PyNumber_Rshift},
    {"sub", PyNumber_Subtract},
    {"truediv", PyNumber_TrueDivide},
    {"xor", PyNumber_Xor},
    {"iadd", PyNumber_InPlaceAdd},
    {"iand", PyNumber_InPlaceAnd},
    {"ifloordiv", PyNumber_InPlaceFloorDivide},
    {"ilshift", PyNumber_InPlaceLshift},
    {"imatmul", PyNumber_InPlaceMatrixMultiply},
    {"imul", PyNumber_InPlaceMultiply},
    {"imod", PyNumber_InPlaceRemainder},
    {"ior", PyNumber_InPlaceOr},
    {"ipow", inplace_power},
    {"irshift", PyNumber_InPlaceRshift},
    {"isub", PyNumber_InPlaceSubtract},
    {"itruediv", PyNumber_InPlaceTrueDivide},
    {"ixor", PyNumber_InPlaceXor},
});
static_assert(kBinary.size() == NB_INPLACE_XOR + 1);

constexpr auto kCompare = std::to_array<const char*>({"lt", "le", "eq", "ne", "gt", "ge"});

bool is_tensor(const PyRef& value) { return python::is_tensor(value.get()); }

// What follows a comparison in `if a < b`.
bool decides_branch(int opcode) {
  static const auto* table = [] {
    auto* made = new std::array<bool, 256>{};
    PyRef names = checked(PyObject_GetAttrString(checked(PyImport_ImportModule("opcode")).get(), "opname"));
    for (Py_ssize_t i = 0; i < 256; ++i)
      (*made)[i] = python::text_of(PyList_GET_ITEM(names.get(), i)).find("JUMP") != std::string_view::npos;
    return made;
  }();
  return (*table)[opcode];
}

}  // namespace

void FrameInterpreter::unary(const char* operation, PyObject* (*run)(PyObject*)) {
  PyRef value = pop();
  if (is_tensor(value) && !capture_.concrete) {
    push(capture_.torch_call(operator_function(operation), fmt::format("operator.{}", operation),
                             checked(PyTuple_Pack(1, value.get()))));
    return;
  }
  if (PyRef made = capture_.compute(operator_function(operation), value.get(), nullptr)) {
    push(std::move(made));
    return;
  }
  watch_operator(capture_, value.get(), operation);
  push(capture_.made(checked(run(value.get()))));
}

void FrameInterpreter::unary_positive(int) { unary("pos", PyNumber_Positive); }
void FrameInterpreter::unary_negative(int) { unary("neg", PyNumber_Negative); }
void FrameInterpreter::unary_invert(int) { unary("invert", PyNumber_Invert); }

void FrameInterpreter::unary_not(int) {
  PyRef value = pop();
  push(PyRef::borrow(is_true(capture_, value.get()) ? Py_False : Py_True));
}

namespace {

// Each item stays the object that it is, by which it is known. Torch joins its sizes in a way of its own.
PyRef join_tuples(Capture& capture, PyObject* left, PyObject* right) {
  PyRef items = checked(PyTuple_New(PyTuple_GET_SIZE(left) + PyTuple_GET_SIZE(right)));
  Py_ssize_t next = 0;
  for (PyObject* part : {left, right}) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(part); ++i)
      PyTuple_SET_ITEM(items.get(), next++, Py_NewRef(PyTuple_GET_ITEM(part, i)));
  }
  PyRef plain = checked(PyNumber_Add(left, right));
  if (PyTuple_CheckExact(plain.get())) return capture.made(std::move(items));
  PyRef joined = checked(PyObject_CallOneArg(reinterpret_cast<PyObject*>(Py_TYPE(plain.get())), items.get()));
  for (Py_ssize_t i = 0; i < next; ++i) {
    if (PyTuple_GET_ITEM(joined.get(), i) == PyTuple_GET_ITEM(items.get(), i)) continue;
    capture.settle_deep(items.get());
    break;
  }
  return capture.made(std::move(joined));
}

// A program may have put an operator of its own in the place of torch's.
void watch_tensor_operator(Capture& capture, PyObject* operand, const char* prefix, const char* name) {
  if (!python::is_tensor(operand)) return;
  PyRef key = checked(PyUnicode_FromFormat("__%s%s__", prefix, name));
  PyObject* interned = key.release();
  PyUnicode_InternInPlace(&interned);
  key = PyRef::steal(interned);
  capture.guard_class_attribute(Py_TYPE(operand), interned, _PyType_Lookup(Py_TYPE(operand), interned));
}

}  // namespace

PyRef binary_operation(Capture& capture, int operation, PyObject* left, PyObject* right) {
  const BinaryRow& row = kBinary[operation];
  if (capture.concrete) return checked(row.run(left, right));
  if (python::is_tensor(left) || python::is_tensor(right)) {
    watch_tensor_operator(capture, left, "", row.name);
    watch_tensor_operator(capture, right, "r", row.name);
    return capture.torch_call(operator_function(row.name), fmt::format("operator.{}", row.name),
                              checked(PyTuple_Pack(2, left, right)));
  }
  if (PyRef made = capture.compute(operator_function(row.name), left, right)) return made;
  for (PyObject* operand : {left, right}) stop_at_made_address(capture, operand);
  // Tuples are joined without a look at what they hold.
  const bool joins = operation == NB_ADD && PyTuple_Check(left) && PyTuple_Check(right) && capture.is_made(left) &&
                     capture.is_made(right);
  if (joins) return join_tuples(capture, left, right);
  capture.settle_deep(left);
  capture.settle_deep(right);
  if (is_guardable_constant(left) && is_guardable_constant(right)) return checked(row.run(left, right));
  watch_operator(capture, left, row.name);
  watch_operator(capture, right, row.name);
  const bool formats = (PyUnicode_Check(left) || PyBytes_Check(left)) && std::string_view(row.name).ends_with("mod");
  if (formats) watch_text(capture, right);
  const bool assigns = operation >= NB_INPLACE_ADD;
  if (assigns && (PyList_Check(left) || PyDict_Check(left) || PyAnySet_Check(left))) {
    capture.before_write(left);
    if (PyList_Check(left) && operation == NB_INPLACE_ADD) {
      PyRef items = checked(PySequence_List(get_iterator(capture, right).get()));
      return checked(row.run(left, items.get()));
    }
  }
  PyRef result = checked(row.run(left, right));
  return result.get() == left ? result : capture.adopt(capture.made(std::move(result)));
}

PyRef assign_operator(Capture& capture, PyObject* callable, CallArgs& args) {
  if (args.values.size() != 2 || args.keyword_count()) return args.call(callable);  // raises
  const char* name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  for (int operation = NB_INPLACE_ADD; operation <= NB_INPLACE_XOR; ++operation) {
    if (std::string_view(kBinary[operation].name) == name)
      return binary_operation(capture, operation, args[0], args[1]);
  }
  refuse(capture, callable);
}

void FrameInterpreter::binary_op(int arg) {
  PyRef right = pop(), left = pop();
  push(binary_operation(capture_, arg, left.get(), right.get()));
}

void FrameInterpreter::binary_subscr(int) {
  PyRef key = pop(), object = pop_open();
  // One item of several is looked at, and not the others.
  const bool picks = PyLong_CheckExact(key.get()) && PyTuple_CheckExact(object.get());
  if (!picks) object = capture_.closed(std::move(object));
  push(get_item(capture_, object.get(), key.get()));
}

void FrameInterpreter::store_subscr(int) {
  PyRef key = pop(), object = pop(), value = pop();
  set_item(capture_, object.get(), key.get(), value.get());
}

void FrameInterpreter::delete_subscr(int) {
  PyRef key = pop(), object = pop();
  set_item(capture_, object.get(), key.get(), nullptr);
}

void FrameInterpreter::compare_op(int arg) {
  arg >>= kCompareShift;
  PyRef right = pop(), left = pop();
  if (capture_.concrete) {
    push(checked(PyObject_RichCompare(left.get(), right.get(), arg)));
    return;
  }
  if (is_tensor(left) || is_tensor(right)) {
    push(capture_.torch_call(operator_function(kCompare[arg]), fmt::format("operator.{}", kCompare[arg]),
                             checked(PyTuple_Pack(2, left.get(), right.get()))));
    return;
  }
  if (PyRef condition = capture_.compare_data(operator_function(kCompare[arg]), left.get(), right.get())) {
    push(std::move(condition));
    return;
  }
  const bool branches = decides_branch(instructions_[next_].opcode) || fs_frame_generator(frame_);
  if (!branches) {
    if (PyRef truth = capture_.open_truth(operator_function(kCompare[arg]), left.get(), right.get())) {
      push(std::move(truth));
      return;
    }
  }
  if (auto answer = capture_.decide(operator_function(kCompare[arg]), left.get(), right.get())) {
    push(PyRef::borrow(*answer ? Py_True : Py_False));
    return;
  }
  if (arg == Py_EQ || arg == Py_NE) {
    auto same = capture_.same_sizes(left.get(), right.get());
    if (!same) same = equal_without_data(capture_, left.get(), right.get());
    if (same) {
      push(PyRef::borrow(*same == (arg == Py_EQ) ? Py_True : Py_False));
      return;
    }
  }
  watch_comparison(capture_, left.get(), kCompare[arg]);
  watch_comparison(capture_, right.get(), kCompare[arg]);
  push(checked(PyObject_RichCompare(left.get(), right.get(), arg)));
}

void FrameInterpreter::is_op(int arg) {
  PyRef right = pop(), left = pop();
  if (is_number(left.get()) && is_number(right.get())) {
    capture_.settle(left.get());
    capture_.settle(right.get());
    left = capture_.original(left.get());
    right = capture_.original(right.get());
  }
  // `t.item() is True` asks for the answer, if only it is known; `is None` does not.
  auto settled = [&](PyRef& value, const PyRef& other) {
    if (capture_.concrete || !capture_.open_relation(value.get())) return;
    if (!PyBool_Check(other.get()) && !capture_.open_relation(other.get())) return;
    if (const auto truth = capture_.truth_of_data(value.get())) value = PyRef::borrow(*truth ? Py_True : Py_False);
  };
  settled(left, right);
  settled(right, left);
  const bool same = left.get() == right.get();
  // A constant was guarded by its value when it was read, None among them; other objects by what they are now.
  for (const PyRef& value : {left, right}) {
    if (!capture_.concrete && is_tensor(value)) {
      if (PyObject* real = capture_.real_of(value.get())) capture_.tell_apart(real);
      continue;
    }
    const Source* source = capture_.concrete ? nullptr : capture_.source_of(value.get());
    if (source && PyFunction_Check(value.get())) capture_.tell_apart(value.get());
    if (!source || left.get() == Py_None || right.get() == Py_None || is_guardable_constant(value.get())) continue;
    // Two things of different types are told apart by these, which are guarded already.
    if (Py_TYPE(left.get()) != Py_TYPE(right.get())) continue;
    capture_.add_guard({GuardKind::Identity, source, value});
  }
  push(PyRef::borrow(same != (arg == 1) ? Py_True : Py_False));
}

void FrameInterpreter::contains_op(int arg) {
  PyRef container = pop(), item = pop();
  const bool found = contains(capture_, container.get(), item.get());
  push(PyRef::borrow(found != (arg == 1) ? Py_True : Py_False));
}

}  // namespace firesteel::capture
