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

#include "aot/trace.h"
#include "capture/break_reasons.h"
#include "capture/journal.h"
#include "capture/live_frames.h"
#include "capture/story.h"
#include "capture/torch_call.h"
#include "graph/graph.h"
#include "guards/guard_program.h"
#include "guards/source.h"
#include "python/py_ref.h"
#include "python/pytree.h"

namespace firesteel::capture {

using guards::AccessKind;
using guards::Guard;
using guards::GuardKind;
using guards::Source;

class KeptNumbers;

class Capture {
 public:
  enum class Mode { Record, Concrete };
  explicit Capture(std::string name, Mode mode = Mode::Record) : concrete(mode == Mode::Concrete) {
    graph.name = std::move(name);
  }
  ~Capture();

  // Gives the capture up, naming the user's line.
  [[noreturn]] void stop(BreakReason reason, std::string detail);
  Break break_here(BreakReason reason, std::string detail);
  // The same for the Python error that is set.
  [[noreturn]] void stop_for_python_error();
  // Ends the call that is being captured with an error of that type, which shows the user's line.
  [[noreturn]] void refuse(const char* type_name, const std::string& message);
  // The same with the Python error that is set, as it is.
  [[noreturn]] void refuse_with_python_error();
  // Stops for an error that is ours and no business of the captured code, or an interrupt; else does nothing.
  void stop_for_own_error();

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
  // `finds_tensors`: tensors among its keys are looked up as the container knows them (tensor_keys.h).
  void consult(PyObject* container, bool finds_tensors = false);
  // True for constants and containers of these; all of it is guarded.
  bool is_deep_constant(PyObject* value);
  // The same value with stand-ins in place of real tensors: itself where there are none.
  PyRef substitute(PyObject* value);
  // The number that an object of a class over int or float is, guarded; empty for all else.
  PyRef number_of(PyObject* value);
  // A tensor of the call, before the trace starts.
  void add_argument(PyObject* tensor, const Source* source);
  void add_guard(Guard guard);
  void guard_class_attribute(PyTypeObject* type, PyObject* name, PyObject* found);
  // What is no subclass of one of these (a class, or a tuple of them) may be registered with it later.
  void note_strangers(PyObject* type, PyObject* asked);
  // True at the first time.
  bool consult_once(PyObject* object) { return consulted_.insert(object).second; }

  // A value found in a dict, at `in`: from its source where it is what was there before, else as it is.
  PyRef read_key(PyObject* dict, const Source* in, PyObject* key, PyObject* value);
  // A key that is not in a dict: guarded where it was not there before either.
  void guard_absent(PyObject* dict, const Source* in, PyObject* key);
  // A key that is in a dict, whatever its value.
  void guard_present(PyObject* dict, const Source* in, PyObject* key);
  // Looks at everything in a nest of containers, so that C code may walk it; real tensors in it become stand-ins.
  PyRef consult_deep(PyObject* value);

  // ---- numbers (numbers.cpp)
  // As admit(); but a number is not guarded by its value as long as it is only passed on.
  PyRef admit_value(PyObject* value, const Source* source);
  // The number there changes from call to call: it is computed with, not settled, where that can be done.
  void expect_changes(const Source* source);
  // The value is about to be looked at: a number from outside is guarded by it; the second also inside containers.
  void settle(PyObject* object);
  void settle_deep(PyObject* value);
  // From now on every number is guarded by its value: C code was started that looks at numbers later on.
  void settle_all();
  void settle_all_but_sizes();
  // From here on the graph takes no further numbers as inputs.
  void close_numbers();
  // What a pure function gives for numbers of which one changes; empty where none does. `second` may be null.
  PyRef compute(PyObject* function, PyObject* first, PyObject* second);
  // The same for a question, which is guarded by its answer.
  std::optional<bool> decide(PyObject* function, PyObject* first, PyObject* second);
  // A number that changes, and is not settled.
  bool is_open_number(PyObject* object) const;
  // Where a number comes from; null for what is no number from outside, and for a computed one that is settled.
  const Source* number_source(PyObject* object) const;
  // A tuple from outside with its numbers as admit_value() gives them, where one of them changes; else empty.
  PyRef with_changing_items(PyObject* tuple);
  // The same of a slice or torch.Size, which is one constant where none of its numbers changes.
  PyRef with_changing_parts(PyObject* constant, const Source* source);
  // The object that a number from outside is to the program.
  PyRef original(PyObject* object) const;

  // ---- sizes that change (sizes.cpp)
  // The size of a tensor at that source may be another one at the next call.
  void expect_size(const Source* tensor, DynamicDim dim);
  void keep_size(const Source* tensor, int32_t dim);  // it may not
  // The program says so, by mark_dynamic() or a shapes_spec: a graph for one size alone is an error.
  void require_open(const Source* tensor, int32_t dim, bool by_mark) { required_.push_back({tensor, dim, by_mark}); }
  std::vector<std::vector<DynamicDim>> dynamic_dims() const;  // of the arguments, in their order
  // What C code gives for sizes, with the numbers that stand for them here.
  // `keep_truths`: what is asked of them is not answered yet (open_truths.cpp).
  PyRef adopt_sizes(PyRef value, bool keep_truths = false);
  PyRef size_number(const Dim& dim);
  // Whether two tuples of numbers are equal, where one of them holds sizes that change; else nothing.
  std::optional<bool> same_sizes(PyObject* a, PyObject* b);
  // What was found out about sizes, once the trace has ended.
  void note_sizes(const Trace& trace);

  // ---- comparisons of numbers that change (open_truths.cpp)
  // One that nobody has looked at yet, as an object; empty where there is nothing to be left open.
  PyRef open_truth(PyObject* function, PyObject* first, PyObject* second);
  // It is one, or a container that holds one; the second has a look at a container that was made elsewhere.
  bool holds_truth(PyObject* value) const;
  void note_truths(PyObject* container, bool deep = false);
  // The same value for everybody to look at, with its truths decided.
  PyRef closed(PyRef value);
  // Where its answer is found in a call; null for all others.
  const Source* truth_source(PyObject* value) const;

  // ---- numbers that the graph computes (data_numbers.cpp)
  bool is_data_number(PyObject* object) const;
  // What `.item()` and `.tolist()` give, and int() or float(); empty where the capture has no such numbers, or no such
  // tensor.
  PyRef data_item(PyObject* tensor);
  PyRef data_list(PyObject* tensor);
  PyRef converted_data(PyObject* type, PyObject* tensor);
  // A tensor that brings the number out of the graph.
  PyRef data_result(PyObject* number);
  PyRef truth_result(const Relation& relation);
  // A comparison of such ints: its answer where it is known, else a `torch.SymBool`. Empty for all others.
  PyRef compare_data(PyObject* function, PyObject* first, PyObject* second);
  // What such a SymBool asks; nothing for other values. The second ends the capture where no answer is known.
  std::optional<Relation> open_relation(PyObject* value) const;
  std::optional<bool> truth_of_data(PyObject* value);
  // From now on it holds, or the error is raised.
  void require_data(const Relation& relation, PyObject* error, PyObject* message);
  // What the trace takes for granted of such numbers, as nodes of a graph that runs call by call. `all`: one on a
  // number that the graph does not show ends the capture.
  void record_conditions(bool all);

  // ---- writes (writes.cpp)
  // Before a dict, list, set, deque or cell is changed; nothing for what the captured code made itself.
  void before_write(PyObject* container);
  void before_slot_write(PyObject* object, PyObject* member);
  // Guards that an object that was written to is none of the others of its class that were read.
  void keep_apart(PyObject* object, const Source* source);
  // C code compares an object by what it is, itself or what it hashes to: which of the others it is, is guarded.
  void tell_apart(PyObject* object);
  // The object that was found at a source; null where none is known.
  PyObject* object_at(const Source* source) const;

  // Objects made by the captured code itself have no source. Remembers when it was made.
  PyRef made(PyRef object);
  bool is_made(PyObject* object) const { return !source_of(object); }
  // Neither found at a source nor known to be made inside: C code has reached it by itself.
  bool is_unknown(PyObject* object) const { return !source_of(object) && !births_.count(object); }
  // The instruction, as `clock` counts them, that made the object; -1: unknown.
  long birth_of(PyObject* object) const;

  // ---- calls that become nodes (torch_calls.cpp)
  // `follows`: Python that the call runs is followed, for what it reads and writes.
  PyRef torch_call(PyObject* callable, const std::string& name, const PyRef& args, const PyRef& kwargs = {},
                   bool follows = false);
  // A call that changes torch's thread-local state: a node without tensors.
  PyRef effect_call(PyObject* callable, const std::string& name, const CallArgs& args);
  void drop_nodes();

  // ---- calls that are not looked into (opaque_calls.cpp)
  PyRef nonstrict_call(PyObject* function, CallArgs args);
  // A function that runs at every call, whatever the backend; `traced` gives tensors like its own.
  PyRef leaf_call(PyObject* function, PyObject* traced, const CallArgs& args);
  // Calls a cached function for real, once in all attempts of one capture: its statistics show every call.
  PyRef cached_call(PyObject* callable, const CallArgs& args);
  PyRef allowed_call(PyObject* function, const CallArgs& args);

  // The stand-ins for the call's arguments, in the order they were added.
  void enter(const std::vector<at::Tensor>& stand_ins);
  Value* value_of(PyObject* tensor);
  // The tensor is the same value of the graph as the other one, as another object.
  void know_as(const PyRef& tensor, PyObject* other);
  // Where a tensor that is an input of the graph, real or stand-in, came from; null for others.
  const Source* tensor_source(PyObject* tensor) const;
  bool is_stand_in(PyObject* tensor) const;
  // It lies in the memory of a tensor from outside.
  bool shares_memory(PyObject* tensor) const;
  // The real tensor of the program that a tensor stands for; null for one that the captured code made.
  PyObject* real_of(PyObject* tensor) const;

  Graph graph;                       // torch-level
  Story story;                       // of that graph
  std::vector<std::string> modules;  // whose forward() is being followed, outermost first
  std::vector<PyRef> module_stacks;  // and for each of them, what TorchCall has of it and those around it
  guards::SourceTable sources;
  std::vector<Guard> guards;
  std::vector<std::pair<PyRef, PyRef>> strangers;  // a class, and an abstract one that it is no subclass of
  std::vector<const Source*> input_sources;        // one a graph input
  std::vector<PyRef> arguments;                    // the real tensors of the call
  SymbolValues size_hints;                         // of the trace's symbols, once it has ended
  std::vector<const Source*> number_sources;       // numbers that are inputs, in the order the trace got to know them
  bool interrupted = false;                        // a signal's handler has raised
  PyRef interrupt;                                 // the exception that ended the capture as itself
  std::optional<Break> broken;                     // set while a break passes through CPython's frames
  size_t depth = 0;
  PyCodeObject* called = nullptr;  // of the last function that the frames of `chain` have called
  Journal journal;
  // What was appended to a deque from outside, as long as nothing else was done to it.
  std::unordered_map<PyObject*, std::optional<std::vector<PyRef>>> appended;
  std::unordered_map<const Value*, size_t> loads;  // of inputs: how many calls there were when they were first read
  const bool concrete;                       // instructions run for real: nothing is guarded, recorded or replaced
  int whole_stretches = 0;                   // functions with fullgraph=True that are being followed
  int suspended = 0;                         // Python below runs as it is
  int unrecorded = 0;                        // Python below is followed, and what it computes is no part of the graph
  PyObject* expected = nullptr;              // the function whose frame comes next because an instruction calls it
  std::vector<PyTypeObject*> instantiating;  // classes of the objects that are being made
  // The calls of torch in order, for a backward that fails: nodes of autograd below `next_node` are theirs or an
  // earlier one's.
  struct CallMark {
    uint64_t next_node;
    long clock;
    Break at;
  };
  bool marks_calls = false;
  std::vector<CallMark> call_marks;
  long clock = 0;                                          // the number of the last instruction that has begun
  bool keeps_stacks = false;                               // the graph is for a backend that is a function
  bool runs_python_again = false;                          // the backend calls opaque functions at every call
  bool calls_leaf = false;                                 // the graph runs call by call, whatever the backend
  bool holds_wrappers = false;                             // tensors of classes are values of it (wrapper_tensors.h)
  bool ran_opaque_python = false;                          // a nonstrict function may capture tensors, unguarded
  std::vector<CachedCall>* cached_calls = nullptr;         // of all attempts so far, in their order
  std::vector<std::string> lost_gradients;                 // what to warn of: tensors an opaque function captured
  PyRef uncaught;                                          // the exception that left the outer frame
  std::vector<std::pair<PyRef, PyRef>> written_gradients;  // `.grad` of real tensors, set when the graph has run
  // Leaves that lie in the memory of another tensor, and when they became leaves: they must not outlive the graph.
  std::vector<std::pair<PyRef, long>> borrowed_leaves;
  std::vector<PyRef> inference_blocks;  // those that are open (inference_mode.cpp)
  bool arrays_share_memory = false;     // two of numpy's, among the inputs
  bool inference_around = false;        // inference mode was on before the first of them
  size_t mode_switches = 0;             // nodes that change torch's state
  bool lets_go = false;                 // a variable that held an object from outside holds another now

 private:
  struct Number {
    const Source* source;
    bool changes = false;
    bool settled = false;         // guarded by its value
    std::optional<Dim> dim = {};  // it is a size of the trace
    bool from_data = false;       // the graph computes it: its value here is made up
    PyRef plain = {};             // of a float that data gives: the tensor
  };
  PyRef new_number(PyObject* value, const Source* source, bool changes, std::optional<Dim> dim = {});
  // For numbers that are sizes of the trace.
  std::optional<PyRef> compute_size(PyObject* function, PyObject* first, PyObject* second);
  std::optional<bool> decide_size(PyObject* function, PyObject* first, PyObject* second);
  std::optional<Relation> size_relation(PyObject* function, PyObject* first, PyObject* second);
  std::optional<Dim> dim_of_number(PyObject* number) const;
  const Source* source_of_dim(const Dim& dim);
  // An int that changes, as a size of the trace: where it may be one.
  void make_symbol(PyObject* number);
  bool may_be_symbol(PyObject* value) const;
  enum class SymbolForm { SymInt, Leaf };
  // The same arguments with the numbers that change as torch takes them, or as leaves of the graph.
  PyRef with_symbols(PyObject* value, SymbolForm form);
  bool holds_symbol(PyObject* value) const;
  // Numbers that stand among the arguments of a function that computes with them.
  void settle_operands(const std::string& name, PyObject* args, PyObject* kwargs);
  void refuse_settled_sizes(const Trace& trace);
  void settle_at(const Source* source);
  bool computes(PyObject* first, PyObject* second, const Source*& a, const Source*& b);
  PyRef number_input(PyObject* number);
  PyRef symbol_leaf(PyObject* number);

  // ---- floats inside functions that are not looked into (kept_numbers.cpp)
  friend class KeptNumbers;
  // The `torch.SymFloat` for a number, and the number for one.
  PyRef float_symbol(PyObject* number);
  PyRef adopt_float(const c10::SymFloat& number);
  void keep_numbers();  // from now on the trace may meet some
  // The input of the ATen graph for what is computed there, `value` in this call.
  at::Tensor traced_number_at(const Source* source, PyObject* value);
  bool holds_now(const Relation& relation) const;              // in this call
  const Source* source_of_relation(const Relation& relation);  // null where its answer is known
  // The arguments with a stand-in for the number that changes; empty where there is none, or none can be.
  PyRef with_number_input(const std::string& name, PyObject* args, PyObject* kwargs);
  PyRef with_truth_input(const std::string& name, PyObject* args, PyObject* kwargs);
  // A call traced in a form that takes its changing numbers as inputs; empty where there is none (number_forms.cpp).
  PyRef number_form(PyObject* callable, const std::string& name, PyObject* args, PyObject* kwargs);
  bool meets(PyObject* number, std::string_view requirement);

  struct OpenTruth {
    const Source* source;
    bool answer;                       // in this call
    std::optional<Relation> relation;  // where it is about sizes
    PyRef object = {};
  };
  PyRef new_open_truth(const c10::SymNode& node, OpenTruth truth);
  PyRef adopt_truth(const c10::SymBool& answer);
  bool decide_truth(const OpenTruth& truth);

  [[noreturn]] void stop_at_data(const std::string& what);
  // In a handler: an error that may well come from sizes that were made up says nothing of those that a run finds.
  void stop_for_made_up_sizes(const std::string& name);
  PyRef new_data_number(PyObject* made_up, std::optional<Dim> dim, PyRef plain);
  PyRef new_data_float(PyRef plain, const PyRef& leaf);
  PyRef data_size(const Dim& dim);
  PyRef new_truth(const Relation& relation);
  PyRef compute_data(PyObject* function, PyObject* first, PyObject* second);
  // Empty for what they do not know (data_floats.cpp).
  PyRef compute_data_float(PyObject* function, PyObject* number);
  PyRef compute_data_power(PyObject* function, PyObject* base, PyObject* exponent);
  PyRef compare_data_floats(PyObject* function, PyObject* first, PyObject* second);
  void require_of_float(const at::Tensor& truth);
  PyRef plain_number(PyObject* number);
  PyRef data_operand(PyObject* number);
  PyRef truth_operand(const Relation& relation);
  // What stands for a number in the torch-level graph: a leaf, or the number itself.
  PyRef leaf_of(const Dim& dim);
  PyRef leaf_of(const Relation& relation);
  PyRef number_leaf(PyObject* number);
  PyRef source_leaf(const Source* source, ValueKind kind = ValueKind::Int);
  void note_data_sizes(const PyRef& tensor);
  void record_check(const Relation& relation, PyObject* error, PyObject* text);
  bool has_leaf(const Dim& dim) const;
  bool has_leaf(const Relation& relation) const;
  // A node that gives a number.
  PyRef record_number(PyObject* callable, const std::string& name, const PyRef& args, ValueKind kind);

  void guard_limit(PyObject* deque, const Source* source);
  void know_by_itself(PyObject* key, const Source* container);
  PyRef tensor_at(PyObject* real, const Source* source);
  void guard_function(PyObject* function, const Source* source);
  void guard_inner_value(PyObject* value, const Source* source);
  void add_input(PyObject* real, PyRef fake, const Source* source, InputRole role);
  void record(PyObject* callable, const std::string& name, PyObject* args, PyObject* kwargs, PyObject* result,
              const RecordOptions& options = {});
  // The structure of a result in which numbers that change stand for any.
  Tree without_open_numbers(Tree tree) const;
  void tell_story(const Node& node, const RecordOptions& options);
  PyRef opaque_argument(PyObject* value, const char* root);
  PyRef opaque_call(PyObject* function, const std::string& name, PyRef args, PyRef kwargs, bool any_result,
                    PyObject* traced = nullptr);

  std::unordered_map<PyObject*, const Source*> provenance_;
  std::unordered_map<PyObject*, PyRef> fakes_;  // by the real tensor
  std::unordered_map<const c10::TensorImpl*, Value*> values_;
  std::unordered_map<const c10::TensorImpl*, const Source*> stand_in_sources_;
  std::unordered_set<PyObject*> consulted_, tensor_keyed_;
  std::unordered_map<PyTypeObject*, std::vector<PyObject*>> told_apart_;
  std::unordered_map<PyObject*, std::vector<const Source*>> other_places_;  // of functions
  std::unordered_map<PyObject*, long> births_;
  std::set<std::tuple<GuardKind, const Source*, PyObject*>> guarded_;
  std::unordered_map<PyTypeObject*, std::shared_ptr<guards::ClassAttributes>> classes_;
  std::unordered_map<PyObject*, Number> numbers_;
  std::unordered_map<const Source*, PyRef> numbers_at_;
  std::unordered_map<const Source*, PyRef> number_inputs_;  // stand-ins
  std::unordered_set<const Source*> changing_;
  std::unordered_map<const Source*, PyRef> symbol_leaves_;  // stand-ins
  std::unordered_map<const Source*, at::Tensor> traced_numbers_;
  std::shared_ptr<KeptNumbers> kept_numbers_;  // once there are any
  std::unordered_map<PyObject*, OpenTruth> truths_;
  std::unordered_set<PyObject*> hold_truths_;  // containers
  std::unordered_map<const Source*, std::vector<DynamicDim>> dynamic_;
  struct RequiredSize {
    const Source* tensor;
    int32_t dim;
    bool by_mark;
  };
  std::vector<RequiredSize> required_;
  std::unordered_map<int64_t, PyRef> size_constants_;  // what sizes are computed with
  bool keeps_symbols_ = false;                         // numbers that change are not settled for now;
  bool keeps_floats_ = false;                          // these are sizes, and floats as well
  struct KeepSymbols {
    explicit KeepSymbols(bool& keeps) : keeps(keeps) { keeps = true; }
    ~KeepSymbols() { keeps = false; }
    KeepSymbols(const KeepSymbols&) = delete;
    KeepSymbols& operator=(const KeepSymbols&) = delete;
    bool& keeps;
  };
  size_t open_numbers_ = 0, computed_ = 0;
  bool settles_at_once_ = false;
  std::vector<PyRef> held_;
  size_t cached_count_ = 0;  // of this attempt
  int nesting_ = 0;
  std::unordered_map<std::string, PyRef> data_sizes_, data_results_, dim_leaves_;  // by expression
  std::unordered_map<std::string, std::pair<PyRef, int64_t>> data_tensors_;  // a tensor that has the symbol as a size
  std::unordered_set<std::string> checked_;                                  // conditions that a node looks at

 public:
  bool takes_data_numbers = false;  // numbers that data gives are captured, and do not end it;
  bool takes_data_sizes = false;    // and so are sizes
  DataHints* data_hints = nullptr;  // of all attempts of one capture

  // ---- where it may end: in the frames it starts with, and in those of functions that their instructions call
  bool nests = false;                 // the latter, too
  size_t chain = 0;                   // how many such frames there are now, the outermost
  size_t chain_at_break = 0;          // there were
  long ticks = 0;                     // their instructions so far
  long stop_at = -1;                  // ends before that one; -1: never
  std::vector<long> running;          // the one that runs: of the frame it started with, and of each that was entered
  bool tail = false;                  // what comes next is all that such an instruction still does: a call
  bool entered = false;               // one of those functions was called
  bool stopping = false;              // it ends: the frames are left as they are
  std::vector<StoppedFrame> stopped;  // those that were entered, the innermost first
};

// While one lives, Python that C code runs is not interpreted.
class Suspended {
 public:
  explicit Suspended(Capture& capture) : capture_(capture) { ++capture_.suspended; }
  ~Suspended() { --capture_.suspended; }
  Suspended(const Suspended&) = delete;
  Suspended& operator=(const Suspended&) = delete;

 private:
  Capture& capture_;
};

// While one lives, Python that C code runs is followed for what it reads and writes alone: one node stands for all that
// it computes. What is of torch's own runs as it is.
class Unrecorded {
 public:
  explicit Unrecorded(Capture& capture)
      : capture_(capture), took_data_(std::exchange(capture.takes_data_numbers, false)) {
    ++capture_.unrecorded;
  }
  ~Unrecorded() {
    --capture_.unrecorded;
    capture_.takes_data_numbers = took_data_;
  }
  Unrecorded(const Unrecorded&) = delete;
  Unrecorded& operator=(const Unrecorded&) = delete;

 private:
  Capture& capture_;
  const bool took_data_;
};

// What comes next is all that an instruction still does, or is not: no longer than this lives.
class Tail {
 public:
  Tail(Capture& capture, bool tail) : capture_(capture) { capture_.tail = tail; }
  ~Tail() { capture_.tail = false; }
  Tail(const Tail&) = delete;
  Tail& operator=(const Tail&) = delete;

 private:
  Capture& capture_;
};

// An int or float, no bool and no subclass.
bool is_number(PyObject* object);
// The variables of a module that is imported.
bool is_module_namespace(PyObject* globals);
// Exact types that are compared by value without running Python code.
bool is_guardable_constant(PyObject* object);
// Every constant in a flattened value was guarded by its value, so that it may be kept; a module that a nonstrict
// function takes is guarded as a whole.
bool all_guarded(const Tree& tree);
// Lists, tuples and dicts themselves, and dict subclasses of collections that do not change reading.
bool is_sequence(PyObject* object);
bool is_mapping(PyObject* object);

PyRef interned(const char* text);

// Code of the standard library, or what torch wraps around its C functions: not worth compiling in pieces (region.cpp).
bool is_library(PyCodeObject* code);
bool is_of_torch(PyCodeObject* code);

}  // namespace firesteel::capture
