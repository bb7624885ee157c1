// One attempt to capture a function: what was read and from where, what was called on tensors, and why it was given up.
//
// Values are real Python objects. Only tensors are replaced: by the stand-ins of the ATen trace that runs underneath,
// made when a real tensor is first read. Where an object came from is kept aside, by its identity.
#pragma once

#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "capture/break_reasons.h"
#include "graph/graph.h"
#include "guards/guard_program.h"
#include "guards/source.h"
#include "python/py_ref.h"

namespace firesteel::capture {

using guards::AccessKind;
using guards::Guard;
using guards::GuardKind;
using guards::Source;
using python::PyRef;

// The arguments of a call inside: positional ones, then the values of `keywords` (a tuple, or empty).
struct CallArgs {
  std::vector<PyRef> values;
  PyRef keywords;

  size_t keyword_count() const { return keywords ? static_cast<size_t>(PyTuple_GET_SIZE(keywords.get())) : 0; }
  size_t positional() const { return values.size() - keyword_count(); }
  PyObject* operator[](size_t i) const { return values[i].get(); }
  PyRef tuple() const;                   // the positional ones
  PyRef dict() const;                    // the keywords, empty where there are none
  PyRef call(PyObject* callable) const;  // for real
};

// What a torch-level node calls, and how its arguments nest around the tensors.
struct TorchCall {
  PyRef callable;
  Tree args, kwargs;
  std::vector<std::vector<Py_ssize_t>> results;  // for each output: the way into the result, by index
};

class Capture {
 public:
  explicit Capture(std::string name) { graph.name = std::move(name); }

  // Gives the capture up, naming the user's line.
  [[noreturn]] void stop(BreakReason reason, std::string detail);
  // The same for the Python error that is set; one that is no Exception (KeyboardInterrupt) is thrown on as it is.
  [[noreturn]] void stop_for_python_error();

  // ---- reads (reads.cpp)
  // A value found at a source: guards it and gives what the interpreter works with.
  PyRef admit(PyObject* value, const Source* source);
  // A value that came out of C code, known by its identity.
  PyRef adopt(PyRef value);
  const Source* source_of(PyObject* object) const;
  // From now on the object is known to come from there; nothing is guarded yet.
  void remember(PyObject* object, const Source* source);
  // The source, or the end of the capture where there is none.
  const Source* need_source(PyObject* object);
  void guard_length(PyObject* container);
  // A container is looked at as a whole: guards its structure and remembers where its items come from.
  void consult(PyObject* container);
  // True for constants and containers of these; all of it is guarded.
  bool is_deep_constant(PyObject* value);
  // The same value with stand-ins in place of real tensors: itself where there are none.
  PyRef substitute(PyObject* value);
  // A tensor of the call, before the trace starts.
  void add_argument(PyObject* tensor, const Source* source);
  void add_guard(Guard guard);
  void guard_class_attribute(PyTypeObject* type, PyObject* name, PyObject* found);
  // All that a module holds: parameters, buffers, plain attributes, and the same of its children.
  void consult_module(PyObject* module, const Source* source);

  // Objects made by the captured code itself may be changed by it.
  PyRef made(PyRef object);
  bool is_made(PyObject* object) const { return made_.count(object) != 0; }
  void hold(PyRef object) { held_.push_back(std::move(object)); }

  // ---- calls that become nodes (torch_calls.cpp)
  PyRef torch_call(PyObject* callable, const std::string& name, PyRef args, PyRef kwargs = {});
  PyRef nonstrict_call(PyObject* function, const CallArgs& args);
  // The stand-ins for the call's arguments, in the order they were added.
  void enter(const std::vector<at::Tensor>& stand_ins);
  Value* value_of(PyObject* tensor);
  bool is_stand_in(PyObject* tensor) const;

  Graph graph;  // torch-level
  guards::SourceTable sources;
  std::vector<Guard> guards;
  std::vector<const Source*> input_sources;  // one a graph input
  std::vector<PyRef> arguments;              // the real tensors of the call
  std::optional<Break> broken;               // set while a break passes through CPython's frames
  size_t depth = 0;
  bool ran_opaque_python = false;  // a nonstrict function may capture tensors, unguarded

 private:
  PyRef tensor_at(PyObject* real, const Source* source);
  void add_input(PyObject* real, PyRef fake, const Source* source, InputRole role);
  void record(PyObject* callable, const std::string& name, PyObject* args, PyObject* kwargs, PyObject* result);

  std::unordered_map<PyObject*, const Source*> provenance_;
  std::unordered_map<PyObject*, PyRef> fakes_;  // by the real tensor
  std::unordered_map<const c10::TensorImpl*, Value*> values_;
  std::unordered_set<PyObject*> made_, consulted_;
  std::set<std::tuple<GuardKind, const Source*, PyObject*>> guarded_;
  std::unordered_map<PyTypeObject*, std::shared_ptr<guards::ClassAttributes>> classes_;
  std::vector<PyRef> held_;
};

// Exact types that are compared by value without running Python code.
bool is_guardable_constant(PyObject* object);
// Every constant in a flattened value was guarded by its value, so that it may be kept; a module that a nonstrict
// function takes is guarded as a whole.
bool all_guarded(const Tree& tree);
// Lists, tuples and dicts themselves, and dict subclasses of collections that do not change reading.
bool is_sequence(PyObject* object);
bool is_mapping(PyObject* object);

PyRef interned(const char* text);

}  // namespace firesteel::capture
