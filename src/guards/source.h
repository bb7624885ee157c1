// Where a Python value came from: a path from the call's arguments or from a pinned object, evaluated again at every
// call.
//
// A path is walked without calling any Python code and without taking references: the GIL is held from the first step
// to the last, and nothing on the way can drop an object.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "python/py_ref.h"

namespace firesteel::guards {

using python::PyRef;

// One table drives the enum and the walker: name, and what one step does.
#define FIRESTEEL_ACCESS_KINDS(X)                                               \
  X(Argument, "the call's argument number `index`, keyword values last")        \
  X(Function, "the function that was called")                                   \
  X(Pinned, "an object that lives elsewhere, known by itself")                  \
  X(Kept, "an object that the compiled entry keeps alive")                      \
  X(Handled, "the exception being handled around the call, or None")            \
  X(DictItem, "a dict's value for `key`")                                       \
  X(TensorItem, "a dict's value for the tensor `key`, which hashes to `index`") \
  X(SequenceItem, "item `index` of a list, tuple or deque")                     \
  X(InstanceDict, "an object's own __dict__")                                   \
  X(Member, "a slot of a class with __slots__; `key` is its descriptor")        \
  X(CellContents, "what a closure's cell holds")                                \
  X(FunctionDefaults, "a function's __defaults__")                              \
  X(FunctionKwDefaults, "a function's __kwdefaults__")                          \
  X(FunctionClosure, "a function's __closure__")                                \
  X(FunctionGlobals, "a function's __globals__")                                \
  X(Name, "a function's or a class's __name__")                                 \
  X(Qualname, "a function's or a class's __qualname__")                         \
  X(FunctionModule, "a function's __module__, or None")                         \
  X(FunctionDoc, "a function's __doc__, or None")                               \
  X(MethodFunction, "a bound method's __func__")                                \
  X(MethodSelf, "a bound method's __self__")                                    \
  X(Referent, "what a weak reference leads to, or None")                        \
  X(ViewedDict, "the dict that a view of its keys, values or items shows")      \
  X(Grad, "a tensor's .grad")                                                   \
  X(Size, "a tensor's size in dimension `index`")                               \
  X(Computed, "what the function `key` gives for one number or two")

enum class AccessKind : uint8_t {
#define X(name, what) name,
  FIRESTEEL_ACCESS_KINDS(X)
#undef X
};

struct Source {
  AccessKind kind;
  uint32_t slot;                   // in the order of creation: a parent's is smaller
  const Source* parent;            // null for Argument, Function, Pinned, Kept and Handled
  PyRef key;                       // DictItem, TensorItem, Member, Computed; the object itself for Pinned and Kept
  int64_t index = 0;               // Argument, SequenceItem, Size, TensorItem
  std::string name;                // Argument: the parameter; Pinned, Kept: how a message calls it
  const Source* second = nullptr;  // Computed: the other number, where there is one

  bool is_object() const { return kind == AccessKind::Pinned || kind == AccessKind::Kept; }

  // `self.fc.weight`, `scale`, `cfg["lr"]`: as a person would write it.
  std::string str() const;
};

// A source apart from any table: the steps from its root. Keeps no object alive that can do without.
class SourceStep {
 public:
  SourceStep(AccessKind kind, PyObject* key, int64_t index, std::string name);
  // The size of a tensor in a dimension, and what it was when the step was made.
  static SourceStep size(int64_t dim, int64_t before);

  AccessKind kind;
  int64_t index = 0;
  int64_t before = 0;  // of a size; makes no difference
  std::string name;

  bool operator==(const SourceStep& other) const {
    return kind == other.kind && key() == other.key() && index == other.index;
  }
  bool lost() const;      // the key is gone
  PyObject* key() const;  // borrowed; null where there is none, or it is lost

 private:
  PyRef key_;
  bool weak_ = false;
};
using SourcePath = std::vector<SourceStep>;

// Makes each source once.
class SourceTable {
 public:
  const Source* argument(int64_t index, std::string name);
  const Source* function(std::string name);
  const Source* pinned(PyObject* object, std::string name);
  const Source* kept(PyObject* object, std::string name);
  const Source* handled();
  const Source* item(const Source* dict, PyObject* key);
  const Source* item(const Source* sequence, int64_t index);
  // A tensor finds what is kept under that very tensor: its hash is its address.
  const Source* tensor_item(const Source* dict, PyObject* tensor);
  // A cell of a function's closure, which is known by the name of its variable.
  const Source* cell(const Source* closure, int64_t index, std::string name);
  const Source* step(const Source* parent, AccessKind kind, PyObject* key = nullptr);
  // `function` gives the same for the same numbers and runs no Python code; `second` may be null.
  const Source* computed(PyObject* function, const Source* first, const Source* second);
  const Source* size(const Source* tensor, int64_t dim);
  const Source* at(const SourcePath& path);

  const std::deque<Source>& all() const { return sources_; }

 private:
  struct Key {
    const Source* parent;
    AccessKind kind;
    int64_t index;
    PyObject* key;  // a hashable Python object: compared as a dict does, through `keys_`
    const Source* second;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  const Source* intern(const Source* parent, AccessKind kind, PyObject* key, int64_t index, std::string name,
                       const Source* second = nullptr);

  std::deque<Source> sources_;
  std::unordered_map<Key, const Source*, Hash> known_;
  PyRef keys_;  // dict from key to itself, so that equal keys are one object
};

// One step; `from` is the parent's value. Borrowed; null where there is nothing any more. Raises nothing.
PyObject* follow(AccessKind kind, PyObject* from, PyObject* key, int64_t index);

// A collections.deque itself, no subclass.
bool is_plain_deque(PyObject* object);

// The descriptor of a slice's start, stop or step, by its number.
PyObject* slice_member(size_t number);

// An object's own dict, borrowed; null where it has none.
PyObject* instance_dict(PyObject* object);

// Another one after each change of any dict; 0 where this CPython does not count them, and for an OrderedDict, whose
// order can change without.
uint64_t dict_version(PyObject* dict);

}  // namespace firesteel::guards
