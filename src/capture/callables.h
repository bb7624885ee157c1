// What capture knows of the callables it meets: torch's functions by identity, builtins by rule, and its own objects.
#pragma once

#include <string>

#include "capture/capture.h"

namespace firesteel::capture {

// Makes the tables that this header asks, once: it runs Python that no capture must see.
void prepare_tables();

// A compiled function or a marked one: objects of Firesteel's own types.
bool is_own_callable(PyObject* object);
// The Python callable inside a compiled function, with `self` where it was a bound method; null for others.
PyObject* compiled_callable(PyObject* object);

// Calls the function, and gives the tensors of its result as a flat tuple (flat_caller.cpp).
PyRef new_flat_caller(PyObject* function, Tree tree);
void make_flat_caller_type(PyObject* module);

// What C code is to call while captured: the value itself where Python code will run, else something that brings the
// call back to the capture (followed_callable.cpp). Recipes see through it.
PyRef followed(PyObject* value);
bool follow_keyword(CallArgs& args, std::string_view name);  // the same for one argument; false where it is not given
PyObject* followed_callable(PyObject* object);               // what it stands for; null for others
void make_followed_type(PyObject* module);

// What functools.lru_cache makes.
bool is_cached_function(PyObject* object);
bool is_nn_module(PyObject* object);
bool is_nn_module_class(PyObject* object);

// A function of torch that becomes one node, with the name the graph shows; null for others.
const std::string* torch_leaf(PyObject* callable);
// The function itself where it is called through a tensor (`x.sin` bound): the method of the class.
PyRef unbound_method(PyObject* bound);
// A function of torch that must not be called on stand-ins, and what it does.
struct ForbiddenLeaf {
  const char* name;
  const char* what;
  BreakReason reason;
};
// Null for others.
const ForbiddenLeaf* forbidden_leaf(PyObject* callable);
// An operator of torch.ops.
bool is_torch_op(PyObject* object);

// A function of the operator module, by name: `add`, `getitem`.
PyObject* operator_function(const char* name);
// Python's function for an operation on sizes, or a question about them.
PyObject* function_of(DimOp op);
PyObject* function_of(RelationKind kind);
// What a tensor's method of that name gives that reads its number; empty where it can be none of the graph's.
PyRef data_number(Capture& capture, std::string_view method, const CallArgs& args);
// torch._check() and its like on what data decides (data_numbers.cpp); empty for all other calls.
PyRef call_check(Capture& capture, PyObject* callable, const CallArgs& args);

// How a tensor's attribute is read.
enum class TensorAttribute { Unknown, Constant, View };
TensorAttribute tensor_attribute_kind(PyObject* name);

// The rule for a builtin function or type; null for others.
using BuiltinRule = PyRef (*)(Capture& capture, PyObject* callable, CallArgs& args);
BuiltinRule builtin_rule(PyObject* callable);
// It does not look at the numbers it is given, or settles them itself.
bool passes_numbers_on(BuiltinRule rule);

// Methods of lists, dicts, strings and the like.
PyRef call_container_method(Capture& capture, PyObject* callable, PyTypeObject* type, std::string_view name,
                            CallArgs& args);
bool has_container_methods(PyTypeObject* type);

// nn.Module.__getattr__ as torch defines it: parameters, buffers, modules, in this order.
PyObject* module_getattr();

// A call of it does not look at truths among its arguments: it is followed, or nonstrict (open_truths.cpp).
bool hands_truths_on(PyObject* callable);

// ---- the interpreter's view of Python's protocols. With a concrete capture they are Python's own.

// calls.cpp
PyRef call(Capture& capture, PyObject* callable, CallArgs args);
// The same where C code has called a marked function in the middle of a capture.
PyRef call_from_c(Capture& capture, PyObject* callable, PyObject* const* args, size_t positional, PyObject* keywords);
PyRef call_spread(Capture& capture, PyObject* callable, PyObject* args, PyObject* kwargs);
// numpy_calls.cpp: empty for what is not one of its functions, called with numbers.
PyRef call_numpy_function(Capture& capture, PyObject* callable, const CallArgs& args);

// attributes.cpp
PyRef load_attribute(Capture& capture, PyObject* object, PyObject* name);
// Empty where there is none.
PyRef find_attribute(Capture& capture, PyObject* object, PyObject* name);
// tensor_attributes.cpp
PyRef tensor_attribute(Capture& capture, PyObject* tensor, PyObject* name);
// object.__getattribute__: the instance's class and dict, no __getattr__.
PyRef generic_attribute(Capture& capture, PyObject* object, PyObject* name);
// What the descriptor of a class gives for an object (null: for the class itself), followed where it is Python.
// Empty: it gives nothing that can be followed.
PyRef described(Capture& capture, PyObject* object, PyTypeObject* type, PyObject* name, PyObject* found);
// As LOAD_METHOD has it: the function with `self` apart where it is a plain method.
PyRef load_method(Capture& capture, PyObject* object, PyObject* name, bool& takes_self);
// A method looked up in the class alone, bound; empty where there is none.
PyRef special_method(Capture& capture, PyObject* object, const char* name);

// A module's variables: those of one that is imported are there for good.
const Source* module_variables(Capture& capture, PyObject* module);
// `?` where it has none.
std::string module_name(PyObject* module);
// Namespaces of torch.ops and their operators make their members when asked, in Python of their own, and keep them.
PyRef operator_member(Capture& capture, PyObject* owner, PyObject* name);

// stores.cpp. A null value deletes.
void store_attribute(Capture& capture, PyObject* object, PyObject* name, PyObject* value);
// object.__setattr__
void generic_store(Capture& capture, PyObject* object, PyObject* name, PyObject* value);
// Into the object's own dict, whatever its class says. A null value deletes.
void store_in_dict(Capture& capture, PyObject* object, const Source* source, PyObject* name, PyObject* value);

// protocols.cpp
bool is_true(Capture& capture, PyObject* value);
bool contains(Capture& capture, PyObject* container, PyObject* item);
PyRef get_iterator(Capture& capture, PyObject* value);
// The next item; empty at the end.
PyRef next_of(Capture& capture, PyObject* iterator);
// One that was made before the capture: its steps cannot be taken back.
[[noreturn]] void stop_at_iterator(Capture& capture, PyObject* iterator);
PyRef get_item(Capture& capture, PyObject* object, PyObject* key);
// A null value deletes.
void set_item(Capture& capture, PyObject* object, PyObject* key, PyObject* value);
Py_ssize_t length_of(Capture& capture, PyObject* object);
// Calls a method that the object's class defines; stops where there is none that can be followed.
PyRef call_special(Capture& capture, PyObject* object, const char* name, std::vector<PyRef> args = {});

// Throws the NameError or AttributeError that is set, after saying which name on which object it is about.
[[noreturn]] void name_error(PyObject* name, PyObject* object);

// ops_values.cpp: by BINARY_OP's number.
PyRef binary_operation(Capture& capture, int operation, PyObject* left, PyObject* right);

// watches.cpp: what C code is about to look at by itself is guarded first.
void watch_operator(Capture& capture, PyObject* value, const char* operation);
void watch_comparison(Capture& capture, PyObject* value, const char* operation);
void watch_hash(Capture& capture, PyObject* value);
void watch_text(Capture& capture, PyObject* value);
// False, and no break, where a text would show data, or the address of an object of the capture.
bool has_known_text(Capture& capture, PyObject* value);

// True for classes written in C that nobody can change; CPython 3.12 has many of them on the heap, as a deque's.
inline bool is_c_class(PyTypeObject* type) {
  return !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE);
}
// True for classes written in Python whose objects are plain Python objects, or subclasses of known containers.
bool is_python_class(PyTypeObject* type);

// What a `super` object looks from: its own fields, as asking it for attributes asks the classes that it stands for.
struct SuperParts {
  PyRef after, self, self_class;  // the last two are None where it is bound to no object
};
SuperParts parts_of_super(PyObject* object);

}  // namespace firesteel::capture
