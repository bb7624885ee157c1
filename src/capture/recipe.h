// How to make a Python value again at run time: out of what the guards walked to, what the graph gave, and constants.
//
// One book holds the recipes of one compiled piece of code. A value that is wanted twice is made once, so identity and
// cycles come out as they were.
#pragma once

#include <string>
#include <vector>

#include "guards/holdings.h"
#include "guards/source.h"
#include "python/py_ref.h"

namespace firesteel::capture {

using guards::Source;
using python::PyRef;

// One table: name, and what it makes.
#define FIRESTEEL_RECIPES(X)                                                     \
  X(Nothing, "an empty place")                                                   \
  X(Constant, "`object` itself")                                                 \
  X(Load, "what the guards found at source number `index`")                      \
  X(Output, "tensor number `index` of the graph")                                \
  X(Tuple, "a tuple of the parts; of class `object` where there is one")         \
  X(List, "a list of the parts")                                                 \
  X(Dict, "a dict of the parts: key, value, key, …")                             \
  X(Set, "a set of the parts")                                                   \
  X(FrozenSet, "a frozenset of the parts")                                       \
  X(Slice, "a slice of the three parts")                                         \
  X(Cell, "a closure's cell that holds the part")                                \
  X(Method, "a bound method: function, self")                                    \
  X(Function,                                                                    \
    "a function of code `object`: globals, closure, defaults, kwdefaults, "      \
    "annotations, dict, names")                                                  \
  X(Instance, "an object of class `object`: its contents, its dict, then slots") \
  X(Slot, "no value: the place `index` of the slot that the next part fills")    \
  X(Exception,                                                                   \
    "an exception of class `object`: arguments, its dict, then descriptors "     \
    "and what they are set to")                                                  \
  X(Traceback,                                                                   \
    "a traceback of code `object` at line and instruction `index`: the one "     \
    "that it leads to, globals")                                                 \
  X(Attribute, "attribute `object` of the part")                                 \
  X(Call, "what the method `object` of the part gives, without arguments")       \
  X(Stepped, "an iterator over the part, moved on by `index` items")             \
  X(Reduced, "what a callable gives for a tuple of arguments, then its state")   \
  X(Carrying, "the first part, with what the second holds in its own dict")      \
  X(Number, "the number that tensor number `index` of the graph holds, or is")

enum class RecipeKind : uint8_t {
#define X(name, what) name,
  FIRESTEEL_RECIPES(X)
#undef X
};

struct Recipe {
  RecipeKind kind = RecipeKind::Nothing;
  PyRef object;              // while capturing; then
  PyObject* held = nullptr;  // of the entry's holdings
  int64_t index = 0;
  std::vector<int32_t> parts;
};

// A change to make to an object that existed before.
#define FIRESTEEL_WRITES(X)                                  \
  X(SetKey, "a dict's `key` to the value")                   \
  X(DeleteKey, "a dict's `key`")                             \
  X(Append, "the value to a list or deque")                  \
  X(Refill, "a container with what the value holds")         \
  X(SetCell, "a cell to the value")                          \
  X(SetGrad, "a tensor's gradient to the value")             \
  X(LeaveHook, "the value on a tensor, by its method `key`") \
  X(Step, "an iterator by `offset` steps")                   \
  X(SetSlot, "a slot to the value; `offset` is its place")

enum class WriteKind : uint8_t {
#define X(name, what) name,
  FIRESTEEL_WRITES(X)
#undef X
};

struct Write {
  WriteKind kind;
  int32_t target;  // recipes
  PyRef key;       // while capturing; then `held`
  int32_t value = 0;
  int64_t offset = 0;
  PyObject* held = nullptr;
};

struct RecipeBook {
  std::vector<Recipe> recipes;
  std::vector<const Source*> loads;  // while capturing; then their places among the guards' slots
  std::vector<uint32_t> load_slots;
  std::vector<Write> writes;
  std::vector<PyObject*> pins;  // what is held weakly, and must live while the recipes are used

  // The capture is over: what the recipes refer to is held by the entry's holdings.
  void settle(guards::Holdings& holdings);
};

// One use of a book.
class Cook {
 public:
  // `loads`: one a source of the book; `outputs`: the graph's tensors.
  Cook(const RecipeBook& book, const std::vector<PyRef>& loads, const std::vector<PyRef>& outputs)
      : book_(book), loads_(loads), outputs_(outputs), made_(book.recipes.size()) {}

  PyRef make(int32_t recipe);
  // All values first, then the changes, so that none of them sees another's.
  void apply_writes();

 private:
  PyRef made_from(int32_t index, const Recipe& recipe);
  std::vector<PyRef> parts(const Recipe& recipe);

  const RecipeBook& book_;
  const std::vector<PyRef>& loads_;
  const std::vector<PyRef>& outputs_;
  std::vector<PyRef> made_;
};

}  // namespace firesteel::capture
