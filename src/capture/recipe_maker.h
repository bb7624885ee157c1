// Finds a recipe for a value that a capture ends with, and tells what the capture has written.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "capture/capture.h"
#include "capture/recipe.h"

namespace firesteel::capture {

// Thrown for a value that cannot be made again: a running generator, an exception with its traceback.
struct NoRecipe {
  PyRef object;
  std::string what;
};

// Putting it into a dict or set runs Python code of its class.
bool hashes_by_python(PyObject* key);

class RecipeMaker {
 public:
  RecipeMaker(Capture& capture, RecipeBook& book) : capture_(capture), book_(book) {}

  // Null has one as well. Throws NoRecipe.
  int32_t of(PyObject* value);
  // What the journal holds becomes writes; objects that were written to must stay apart from others that were read.
  void add_writes();

  // The graph's tensors that recipes ask for, in the order of their numbers.
  const std::vector<PyRef>& tensors() const { return tensors_; }

 private:
  // A functools.partial.
  int32_t partial_of(std::vector<int32_t> function_and_arguments);
  int32_t add(RecipeKind kind, PyObject* object = nullptr, std::vector<int32_t> parts = {}, int64_t index = 0);
  int32_t load(const Source* source);
  int32_t constant(PyObject* object) { return add(RecipeKind::Constant, object); }
  int32_t tensor(PyObject* value);
  // A number that data gives; `held` is the tensor that holds it.
  int32_t data_number(PyObject* value, PyRef held);
  int32_t array(PyObject* value);
  int32_t new_generator(PyObject* value);
  int32_t reduced(PyObject* value);
  int32_t call(PyObject* callable, std::initializer_list<PyObject*> args);
  int32_t instance(PyObject* value);
  int32_t exception(PyObject* value);
  int32_t traceback(PyObject* value);
  int32_t globals_of(PyObject* globals);
  int32_t made_inside(PyObject* value);
  // Reserves the number before the parts are looked at, as they may lead back here.
  template <class F>
  int32_t with_parts(PyObject* value, RecipeKind kind, PyObject* object, F&& fill);
  std::vector<int32_t> dict_parts(PyObject* dict);

  void write_dict(int32_t target, PyObject* container, PyObject* before);
  void write_list(int32_t target, const Source* source, PyObject* list, PyObject* before);
  std::vector<int32_t> items_of(PyObject* list);
  void keep_apart(PyObject* container, const Source* source);

  Capture& capture_;
  RecipeBook& book_;
  std::unordered_map<PyObject*, int32_t> known_;
  std::unordered_map<const Source*, int32_t> loads_;
  std::unordered_map<PyObject*, int32_t> outputs_;
  std::vector<PyRef> tensors_;
  std::vector<PyRef> held_;
  std::unordered_set<PyObject*> open_;  // being described right now
};

}  // namespace firesteel::capture
