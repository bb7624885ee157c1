// Instructions that compute: operators, comparisons, items, and the building and taking apart of containers.
#include <array>

#include <fmt/format.h>

#include "capture/callables.h"
#include "capture/frame_interpreter.h"
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

}  // namespace

void FrameInterpreter::unary(const char* operation, PyObject* (*run)(PyObject*)) {
  PyRef value = pop();
  if (is_tensor(value)) {
    push(capture_.torch_call(operator_function(operation), fmt::format("operator.{}", operation),
                             checked(PyTuple_Pack(1, value.get()))));
  } else if (is_guardable_constant(value.get())) {
    push(checked(run(value.get())));
  } else {
    capture_.stop(BreakReason::Value, fmt::format("`{}` of a {}", operation, Py_TYPE(value.get())->tp_name));
  }
}

void FrameInterpreter::unary_positive(int) { unary("pos", PyNumber_Positive); }
void FrameInterpreter::unary_negative(int) { unary("neg", PyNumber_Negative); }
void FrameInterpreter::unary_invert(int) { unary("invert", PyNumber_Invert); }

void FrameInterpreter::unary_not(int) {
  PyRef value = pop();
  push(PyRef::borrow(is_true(capture_, value.get()) ? Py_False : Py_True));
}

PyRef FrameInterpreter::binary(int operation, PyObject* left, PyObject* right) {
  const BinaryRow& row = kBinary[operation];
  if (python::is_tensor(left) || python::is_tensor(right)) {
    return capture_.torch_call(operator_function(row.name), fmt::format("operator.{}", row.name),
                               checked(PyTuple_Pack(2, left, right)));
  }
  const bool assigns = operation >= NB_INPLACE_ADD;
  if (is_guardable_constant(left) && is_guardable_constant(right)) return checked(row.run(left, right));
  auto plain = [](PyObject* value) { return is_sequence(value) || is_guardable_constant(value); };
  if (!plain(left) || !plain(right)) {
    capture_.stop(BreakReason::Value,
                  fmt::format("`{}` of a {} and a {}", row.name, Py_TYPE(left)->tp_name, Py_TYPE(right)->tp_name));
  }
  if (assigns && PyList_CheckExact(left) && !capture_.is_made(left))
    capture_.stop(BreakReason::Write, "an assignment like `+=`");
  capture_.consult(left);
  capture_.consult(right);
  return capture_.made(checked(row.run(left, right)));
}

void FrameInterpreter::binary_op(int arg) {
  PyRef right = pop(), left = pop();
  push(binary(arg, left.get(), right.get()));
}

void FrameInterpreter::binary_subscr(int) {
  PyRef key = pop(), object = pop();
  push(get_item(capture_, object.get(), key.get()));
}

void FrameInterpreter::store_subscr(int) {
  PyRef key = pop(), object = pop(), value = pop();
  set_item(capture_, object.get(), key.get(), value.get());
}

void FrameInterpreter::compare_op(int arg) {
  PyRef right = pop(), left = pop();
  if (is_tensor(left) || is_tensor(right)) {
    push(capture_.torch_call(operator_function(kCompare[arg]), fmt::format("operator.{}", kCompare[arg]),
                             checked(PyTuple_Pack(2, left.get(), right.get()))));
    return;
  }
  if (!capture_.is_deep_constant(left.get()) || !capture_.is_deep_constant(right.get())) {
    capture_.stop(BreakReason::Value, fmt::format("a {} is compared with a {}", Py_TYPE(left.get())->tp_name,
                                                  Py_TYPE(right.get())->tp_name));
  }
  push(checked(PyObject_RichCompare(left.get(), right.get(), arg)));
}

void FrameInterpreter::is_op(int arg) {
  PyRef right = pop(), left = pop();
  const bool same = left.get() == right.get();
  // A constant was guarded by its value when it was read, None among them; other objects by what they are now.
  for (const PyRef& value : {left, right}) {
    const Source* source = capture_.source_of(value.get());
    if (source && left.get() != Py_None && right.get() != Py_None)
      capture_.add_guard({GuardKind::Identity, source, value});
  }
  push(PyRef::borrow(same != (arg == 1) ? Py_True : Py_False));
}

void FrameInterpreter::contains_op(int arg) {
  PyRef container = pop(), item = pop();
  int found = -1;
  if (is_mapping(container.get()) && is_guardable_constant(item.get())) {
    const Source* source = capture_.source_of(container.get());
    found = PyDict_Contains(container.get(), item.get());
    if (source && found == 1)
      capture_.admit(PyDict_GetItem(container.get(), item.get()), capture_.sources.item(source, item.get()));
    if (source && found == 0) capture_.add_guard({GuardKind::Absent, source, item});
  } else if (capture_.is_deep_constant(container.get()) && capture_.is_deep_constant(item.get())) {
    found = PySequence_Contains(container.get(), item.get());
  } else {
    capture_.stop(BreakReason::Value, fmt::format("`in` on a {}", Py_TYPE(container.get())->tp_name));
  }
  python::check(found >= 0);
  push(PyRef::borrow((found == 1) != (arg == 1) ? Py_True : Py_False));
}

void FrameInterpreter::build_tuple(int arg) {
  std::vector<PyRef> items = pop_many(arg);
  PyRef tuple = checked(PyTuple_New(arg));
  for (int i = 0; i < arg; ++i) PyTuple_SET_ITEM(tuple.get(), i, items[i].release());
  push(std::move(tuple));
}

void FrameInterpreter::build_list(int arg) {
  std::vector<PyRef> items = pop_many(arg);
  PyRef list = checked(PyList_New(arg));
  for (int i = 0; i < arg; ++i) PyList_SET_ITEM(list.get(), i, items[i].release());
  push(capture_.made(std::move(list)));
}

void FrameInterpreter::build_set(int arg) {
  std::vector<PyRef> items = pop_many(arg);
  PyRef set = checked(PySet_New(nullptr));
  for (const PyRef& item : items) {
    if (!is_guardable_constant(item.get())) capture_.stop(BreakReason::Value, "a set of other things than constants");
    python::check(PySet_Add(set.get(), item.get()) == 0);
  }
  push(capture_.made(std::move(set)));
}

void FrameInterpreter::build_map(int arg) {
  std::vector<PyRef> items = pop_many(2 * static_cast<size_t>(arg));
  PyRef dict = checked(PyDict_New());
  for (int i = 0; i < arg; ++i) {
    if (!is_guardable_constant(items[2 * i].get()))
      capture_.stop(BreakReason::Value, "a dict with a key that is no constant");
    python::check(PyDict_SetItem(dict.get(), items[2 * i].get(), items[2 * i + 1].get()) == 0);
  }
  push(capture_.made(std::move(dict)));
}

void FrameInterpreter::build_const_key_map(int arg) {
  PyRef keys = pop();
  std::vector<PyRef> values = pop_many(arg);
  PyRef dict = checked(PyDict_New());
  for (int i = 0; i < arg; ++i)
    python::check(PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(keys.get(), i), values[i].get()) == 0);
  push(capture_.made(std::move(dict)));
}

void FrameInterpreter::build_slice(int arg) {
  std::vector<PyRef> parts = pop_many(arg);
  push(checked(PySlice_New(parts[0].get(), parts[1].get(), arg == 3 ? parts[2].get() : nullptr)));
}

void FrameInterpreter::build_string(int arg) {
  std::vector<PyRef> parts = pop_many(arg);
  PyRef list = checked(PyList_New(arg));
  for (int i = 0; i < arg; ++i) PyList_SET_ITEM(list.get(), i, parts[i].release());
  push(checked(PyUnicode_Join(checked(PyUnicode_New(0, 0)).get(), list.get())));
}

void FrameInterpreter::format_value(int arg) {
  PyRef spec = arg & 4 ? pop() : PyRef();
  PyRef value = pop();
  if (!is_guardable_constant(value.get())) {
    capture_.stop(is_tensor(value) ? BreakReason::DataDependent : BreakReason::Value,
                  fmt::format("a {} is written into a string", Py_TYPE(value.get())->tp_name));
  }
  constexpr PyObject* (*kConversions[])(PyObject*) = {nullptr, PyObject_Str, PyObject_Repr, PyObject_ASCII};
  if (auto* convert = kConversions[arg & 3]) value = checked(convert(value.get()));
  push(checked(PyObject_Format(value.get(), spec.get())));
}

void FrameInterpreter::list_append(int arg) {
  PyRef item = pop();
  python::check(PyList_Append(top(arg).get(), item.get()) == 0);
}

void FrameInterpreter::list_extend(int arg) {
  PyRef iterator = get_iterator(capture_, pop().get());
  PyRef items = checked(PySequence_List(iterator.get()));
  PyObject* list = top(arg).get();
  python::check(PyList_SetSlice(list, PyList_GET_SIZE(list), PyList_GET_SIZE(list), items.get()) == 0);
}

void FrameInterpreter::list_to_tuple(int) { push(checked(PyList_AsTuple(pop().get()))); }

void FrameInterpreter::set_add(int arg) {
  PyRef item = pop();
  if (!is_guardable_constant(item.get())) capture_.stop(BreakReason::Value, "a set of other things than constants");
  python::check(PySet_Add(top(arg).get(), item.get()) == 0);
}

void FrameInterpreter::map_add(int arg) {
  PyRef value = pop(), key = pop();
  if (!is_guardable_constant(key.get())) capture_.stop(BreakReason::Value, "a dict with a key that is no constant");
  python::check(PyDict_SetItem(top(arg).get(), key.get(), value.get()) == 0);
}

void FrameInterpreter::dict_update(int arg) {
  PyRef mapping = pop();
  if (!is_mapping(mapping.get()))
    capture_.stop(BreakReason::Value, fmt::format("a dict takes over a {}", Py_TYPE(mapping.get())->tp_name));
  capture_.consult(mapping.get());
  python::check(PyDict_Update(top(arg).get(), mapping.get()) == 0);
}

void FrameInterpreter::dict_merge(int arg) {
  PyRef mapping = pop();
  if (!is_mapping(mapping.get()))
    capture_.stop(BreakReason::Value, fmt::format("`**` of a {}", Py_TYPE(mapping.get())->tp_name));
  capture_.consult(mapping.get());
  PyObject* into = top(arg).get();
  Py_ssize_t position = 0;
  PyObject* key = nullptr;
  while (PyDict_Next(mapping.get(), &position, &key, nullptr)) {
    if (PyDict_Contains(into, key))
      capture_.stop(BreakReason::Exception, "TypeError: a keyword argument is given twice");
  }
  python::check(PyDict_Update(into, mapping.get()) == 0);
}

PyRef FrameInterpreter::unpacked(PyObject* value) {
  PyRef iterator = get_iterator(capture_, value);
  PyRef items = checked(PySequence_List(iterator.get()));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    PyRef item = capture_.adopt(PyRef::borrow(PyList_GET_ITEM(items.get(), i)));
    python::check(PyList_SetItem(items.get(), i, item.release()) == 0);
  }
  return items;
}

void FrameInterpreter::unpack_sequence(int arg) {
  PyRef items = unpacked(pop().get());
  if (PyList_GET_SIZE(items.get()) != arg)
    capture_.stop(BreakReason::Exception, "ValueError: wrong number of values to unpack");
  for (int i = arg; i-- > 0;) push(PyRef::borrow(PyList_GET_ITEM(items.get(), i)));
}

void FrameInterpreter::unpack_ex(int arg) {
  const int before = arg & 0xff, after = arg >> 8;
  PyRef items = unpacked(pop().get());
  const auto count = static_cast<int>(PyList_GET_SIZE(items.get()));
  if (count < before + after) capture_.stop(BreakReason::Exception, "ValueError: not enough values to unpack");
  for (int i = count; i-- > count - after;) push(PyRef::borrow(PyList_GET_ITEM(items.get(), i)));
  push(capture_.made(checked(PyList_GetSlice(items.get(), before, count - after))));
  for (int i = before; i-- > 0;) push(PyRef::borrow(PyList_GET_ITEM(items.get(), i)));
}

}  // namespace firesteel::capture
