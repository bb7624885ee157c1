// Binding, interpreting and describing.
#include "capture/attempt.h"
#include "capture/input_names.h"

#include <algorithm>

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include "capture/allowance.h"
#include "capture/arrays.h"
#include "capture/class_writes.h"
#include "capture/followed_backward.h"
#include "capture/frame_hook.h"
#include "capture/inference_mode.h"
#include "capture/late_calls.h"
#include "capture/leaf_hooks.h"
#include "capture/oracle.h"
#include "capture/outside_iterators.h"
#include "capture/overridden_calls.h"
#include "capture/recipe_maker.h"
#include "capture/size_settings.h"
#include "capture/wrapper_tensors.h"
#include "python/errors.h"
#include "python/python_backward.h"
#include "python/pytree.h"
#include "python/pytree_nodes.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {

// Torch's modes and the exception being handled, put back at the end.
class KeepThreadState {
 public:
  explicit KeepThreadState(PyThreadState* state)
      : state_(state), handled_(PyRef::borrow(state->exc_info->exc_value)), modes_(TorchModes::current()) {}
  ~KeepThreadState() {
    PyRef old = PyRef::steal(state_->exc_info->exc_value);
    state_->exc_info->exc_value = PyRef(handled_).release();
    modes_.apply();
  }
  KeepThreadState(const KeepThreadState&) = delete;
  KeepThreadState& operator=(const KeepThreadState&) = delete;
  PyObject* handled() const { return handled_.get(); }
  const TorchModes& modes() const { return modes_; }

 private:
  PyThreadState* state_;
  PyRef handled_;
  TorchModes modes_;
};

namespace {

constexpr int kDeepestArgument = 8;

// Of a class that the program has told how to take apart; its parts lie in its dict.
bool is_registered_object(PyObject* value) {
  return is_python_class(Py_TYPE(value)) && python::kind_of(value) && guards::instance_dict(value);
}

// Tensors of the call, also inside containers, are inputs of the graph; all that leads to them is guarded.
void collect_tensors(Capture& capture, PyObject* value, const Source* source, int depth) {
  if (is_wrapper(value)) {
    go_call_by_call(capture);
    capture.add_argument(value, source);
    return;
  }
  if (may_stand_in(value)) {
    if (guards::is_plain_real(python::unpack(value))) capture.add_argument(value, source);
    return;
  }
  if (collect_array(capture, value, source)) return;
  if (PyCell_Check(value)) {
    if (PyObject* held = PyCell_GET(value); held && may_be_input(held)) {
      capture.remember(value, source);
      collect_tensors(capture, held, capture.sources.step(source, AccessKind::CellContents), depth);
    }
    return;
  }
  const bool registered = !PyDict_Check(value) && !PyTuple_Check(value) && !PyList_CheckExact(value);
  if (depth >= kDeepestArgument || (registered && !is_registered_object(value))) return;
  std::vector<std::pair<PyObject*, const Source*>> children;
  if (registered) {
    capture.add_guard({GuardKind::Type, source, PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(value)))});
    const Source* dict = capture.sources.step(source, AccessKind::InstanceDict);
    children.emplace_back(guards::instance_dict(value), dict);
  } else if (!PyDict_Check(value)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
      children.emplace_back(PySequence_Fast_GET_ITEM(value, i), capture.sources.item(source, i));
    }
  } else {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *item = nullptr;
    while (PyDict_Next(value, &position, &key, &item)) {
      if (is_guardable_constant(key)) children.emplace_back(item, capture.sources.item(source, key));
    }
  }
  const size_t before = capture.arguments.size();
  for (const auto& [child, at] : children) collect_tensors(capture, child, at, depth + 1);
  if (capture.arguments.size() > before) capture.admit(value, source);
}

}  // namespace

Attempt::Attempt(const SegmentStart& start, const BackendChoice& backend, long stop_at, bool locate_backward)
    : start_(start),
      backend_(backend),
      level_(start.frames.size() - 1),
      capture(std::string(python::text_of(fs_frame_code(start.frame())->co_name))) {
  capture.stop_at = stop_at;
  backward.locate = locate_backward;
  if (backend.kind == Backend::Callable) backend_paths.emplace(start);
  capture.keeps_stacks = backend.kind == Backend::Callable;
}

const Capture::CallMark* Attempt::failed_call() const {
  if (!backward.began || !backward.node) return nullptr;
  const auto& marks = capture.call_marks;
  auto found =
      std::find_if(marks.begin(), marks.end(), [&](const auto& mark) { return *backward.node < mark.next_node; });
  if (found == marks.end()) return nullptr;
  return &*std::find_if(marks.begin(), found, [&](const auto& mark) { return mark.at.detail == found->at.detail; });
}

Trace Attempt::run() {
  const OutsideIterators iterators(capture);
  const LeafHooks hooks(capture);
  const ClassWrites class_writes(capture);
  const LateCalls late_calls(capture);
  capture.runs_python_again = !backend_.runs_aten();
  const PyCodeObject* outermost = fs_frame_code(start_.frames[0].frame);
  function_source_ = capture.sources.function(std::string(python::text_of(outermost->co_name)));
  capture.admit(start_.frames.function(), function_source_);
  start_.shape ? bind_call() : bind_frames();
  if (start_.moving) {
    for (const guards::SourcePath& path : *start_.moving) collect_moving(path);
  }
  keep_arrays_apart(capture);
  open_sizes();
  std::vector<at::Tensor> tensors;
  // The trace knows nothing of a wrapper.
  for (const PyRef& tensor : capture.arguments)
    tensors.push_back(is_wrapper(tensor.get()) ? at::empty({0}) : python::unpack(tensor.get()));
  TraceOptions options;
  options.dynamic = capture.dynamic_dims();
  options.name = capture.graph.name;
  options.grad = backend_.runs_aten() && !capture.holds_wrappers && !c10::InferenceMode::is_enabled();
  options.failed_backward = &backward;
  options.takes_data_numbers = capture.takes_data_numbers;
  options.takes_data_sizes = capture.takes_data_sizes;
  options.data_hints = capture.data_hints;
  capture.marks_calls = backward.locate;
  const auto follower = std::make_shared<FollowedBackward>(capture);
  options.meet_python_node = [&](torch::autograd::Node& node) { python::watch_backward(node, follower); };
  options.run_backward = [&](const std::function<void()>& backward) { follower->run(backward); };
  try {
    return trace([&](const std::vector<at::Tensor>& stand_ins) { return interpret(stand_ins); }, tensors, options);
  } catch (...) {
    // What was decided about sizes has gone with the trace: that it failed holds for these numbers alone.
    capture.settle_all();
    throw;
  }
}

namespace {

// A number that the program's settings name.
bool is_named_open(const Source& source, PyObject* number) {
  if (is_open_source(source) || is_unbacked_source(source)) return true;
  int overflow = 0;
  const long long value = PyLong_CheckExact(number) ? PyLong_AsLongLongAndOverflow(number, &overflow) : 0;
  return PyLong_CheckExact(number) && !overflow && is_open_value(value);
}

}  // namespace

void Attempt::bind_call() {
  parameters_ = bind_parameters(capture, start_.frames.function(), *start_.shape);
  for (const Parameter& parameter : parameters_) {
    if (parameter.source && parameter.source->kind == AccessKind::Argument) collect(parameter.source);
    if (parameter.source && backend_.spec && backend_.spec->numbers.count(parameter.source->str()))
      capture.expect_changes(parameter.source);
    const bool is_argument = parameter.source && parameter.source->kind == AccessKind::Argument;
    PyObject* value = is_argument ? start_.arguments[parameter.source->index] : nullptr;
    if (value && is_number(value) && (is_named_open(*parameter.source, value) || opens_number(value)))
      capture.expect_changes(parameter.source);
    for (const Source* item : parameter.items) collect(item);
  }
}

void Attempt::collect(const Source* source) { collect_tensors(capture, start_.arguments[source->index], source, 0); }

void Attempt::collect_moving(const guards::SourcePath& path) {
  PyObject* value = nullptr;
  PyObject* const* roots = start_.shape ? start_.arguments : start_.frames.values();
  guards::SourcePath at = path;
  std::optional<DynamicDim> open_size;
  if (path.back().kind == AccessKind::Size) {
    open_size.emplace();
    open_size->dim = static_cast<int32_t>(path.back().index);
    open_size->before = path.back().before;
    open_size->apart = capture.keeps_stacks;
    if (size_settings().changed_take_any) open_size->least = 0;
    at.pop_back();
  }
  for (const guards::SourceStep& step : at) {
    // The path may be that of a call of another shape.
    const bool missing =
        step.kind == AccessKind::Argument && start_.shape && step.index >= static_cast<int64_t>(start_.shape->count());
    if (missing || step.lost()) return;
    value = step.kind == AccessKind::Argument   ? roots[step.index]
            : step.kind == AccessKind::Function ? start_.frames.function()
                                                : guards::follow(step.kind, value, step.key(), step.index);
    if (!value) return;
  }
  if (open_size) {
    const bool fits = python::is_tensor(value) && !is_wrapper(value) && open_size->dim < python::unpack(value).dim();
    if (fits) capture.expect_size(capture.sources.at(at), *open_size);
    return;
  }
  if (is_number(value)) return capture.expect_changes(capture.sources.at(path));
  const bool known = std::any_of(capture.arguments.begin(), capture.arguments.end(),
                                 [&](const PyRef& argument) { return argument.get() == value; });
  if (!known) collect_tensors(capture, value, capture.sources.at(path), kDeepestArgument);
}

void Attempt::bind_frames() {
  const LiveFrames& frames = start_.frames;
  for (size_t level = 1; level < frames.size(); ++level) {
    PyObject* function = frames[level].function;
    std::string name(python::text_of(fs_frame_code(frames[level].frame)->co_name));
    capture.admit(function,
                  capture.sources.argument(static_cast<int64_t>(frames.function_value(level)), std::move(name)));
  }
  for (size_t level = 0; level < frames.size(); ++level) {
    FsFrame* frame = frames[level].frame;
    PyObject** values = fs_frame_locals(frame);
    const int count = fs_frame_code(frame)->co_nlocalsplus + fs_frame_depth(frame);
    for (int i = 0; i < count; ++i) {
      if (values[i]) collect_tensors(capture, values[i], frame_source(level, i), 0);
    }
  }
}

namespace {

// What a value on the stack is to the user: it has no name, but the line that is on its way has a number.
std::string name_on_stack(FsFrame* frame, int index, bool waits) {
  PyCodeObject* code = fs_frame_code(frame);
  PyRef bytes = python::checked(PyCode_GetCode(code));
  const char* instructions = PyBytes_AS_STRING(bytes.get());
  int at = fs_frame_next(frame) - 1;  // what has just run
  while (at > 0 && instructions[2 * at] == CACHE) --at;
  const int line = PyCode_Addr2Line(code, at * int(sizeof(_Py_CODEUNIT)));
  const bool is_result = !waits && index + 1 == fs_frame_depth(frame);
  const auto opcode = static_cast<unsigned char>(instructions[2 * at]);
  if (is_result && opcode == FOR_ITER) return fmt::format("the value of the loop at line {}", line);
  if (is_result && (opcode == CALL || opcode == CALL_FUNCTION_EX))
    return fmt::format("the result of the call at line {}", line);
  PyObject* value = fs_frame_locals(frame)[code->co_nlocalsplus + index];
  if (value && PyIter_Check(value)) return fmt::format("the iterator of a loop around line {}", line);
  return fmt::format("value {} kept over the break at line {}", index + 1, line);
}

}  // namespace

const Source* Attempt::frame_source(size_t level, int index) {
  FsFrame* frame = start_.frames[level].frame;
  const PyCodeObject* code = fs_frame_code(frame);
  std::string name;
  if (index >= code->co_nlocalsplus) {
    name = name_on_stack(frame, index - code->co_nlocalsplus, level + 1 < start_.frames.size());
    if (level > 0) name += fmt::format(" of {}", python::text_of(code->co_name));
  } else {
    name = python::text_of(PyTuple_GET_ITEM(code->co_localsplusnames, index));
    if (level > 0) name = fmt::format("{}.{}", python::text_of(code->co_name), name);
  }
  return capture.sources.argument(static_cast<int64_t>(start_.frames.first_value(level)) + index, std::move(name));
}

std::unique_ptr<FrameInterpreter> Attempt::interpreter_for(size_t level) {
  FsFrame* frame = start_.frames[level].frame;
  capture.depth = level;
  const FrameRole role = level + 1 == start_.frames.size() ? FrameRole::First : FrameRole::Waiting;
  auto interpreter = std::make_unique<FrameInterpreter>(capture, start_.state, frame, role);
  PyObject** locals = fs_frame_locals(frame);
  if (start_.shape) {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (parameters_[i].collects) {
        interpreter->replace_local(i, collect_rest(locals[i], parameters_[i]));
      } else {
        interpreter->set_local_source(i, parameters_[i].source);
      }
    }
    return interpreter;
  }
  const int count = fs_frame_code(frame)->co_nlocalsplus;
  for (int i = 0; i < count; ++i) {
    if (locals[i]) interpreter->set_local_source(i, frame_source(level, i));
  }
  for (int i = 0; i < fs_frame_depth(frame); ++i) interpreter->admit_stack(i, frame_source(level, count + i));
  return interpreter;
}

void Attempt::refuse_error_from_outside(const KeepThreadState& kept) {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject* error = value;
  PyErr_Restore(type, value, traceback);
  if (error == kept.handled() || capture.source_of(error)) capture.stop_for_python_error();
}

Ending Attempt::run_frames(const KeepThreadState& kept) {
  interpreter_ = interpreter_for(level_);
  Ending ending = interpreter_->run();
  while (level_ > 0 && (ending == Ending::Returned || ending == Ending::Raised)) {
    if (ending == Ending::Raised) refuse_error_from_outside(kept);
    // What the frame holds is let go here, and for real only when the whole piece has run.
    if (interpreter_->may_finalize())
      capture.stop(BreakReason::Value, "a function's end may be that of an object with a __del__ or weak references");
    PyRef result = interpreter_->take_result();
    if (ending == Ending::Returned) interpreter_->drop_values();
    interpreter_ = nullptr;
    --level_;
    interpreter_ = interpreter_for(level_);
    if (result) interpreter_->resume(capture.adopt(std::move(result)), start_.frames[level_].resume);
    ending = interpreter_->run(/*throwing=*/ending == Ending::Raised);
  }
  return ending;
}

FunctionResult Attempt::interpret(const std::vector<at::Tensor>& stand_ins) {
  KeepThreadState kept(start_.state);
  CaptureScope scope(capture);
  capture.enter(stand_ins);
  const FunctionModesAround modes_around(capture);
  if (start_.shape)
    name_inputs_as_forward_does(capture, fs_frame_code(start_.frame()), *fs_frame_locals(start_.frame()));
  // Gone before the scope is: what it holds belongs to the capture to the last.
  struct Drop {
    Attempt& attempt;
    // A generator that was started ends with its frame: nothing of it is followed any more.
    ~Drop() {
      Capture& capture = attempt.capture;
      std::optional<Break> before =
          std::exchange(capture.broken, Break{BreakReason::Control, "the piece ends here", {}, {}});
      attempt.interpreter_ = nullptr;
      std::exchange(capture.stopped, {}).clear();
      capture.broken = std::move(before);
    }
  } drop{*this};
  const Ending ending = run_frames(kept);
  if (ending == Ending::Raised) capture.stop_for_python_error();
  if (capture.stopping) capture.broken.reset();
  capture.clock = capture.ticks;
  return describe(ending, kept);
}

PyRef Attempt::collect_rest(PyObject* container, const Parameter& parameter) {
  Oracle::allow(container);
  PyRef values = python::checked(PyTuple_Check(container) ? PySequence_List(container) : PyDict_Values(container));
  bool numbers = false;
  for (size_t i = 0; i < parameter.items.size(); ++i) {
    PyObject* value = PyList_GET_ITEM(values.get(), i);
    if (python::is_tensor(value)) {
      capture.remember(value, parameter.items[i]);
      continue;
    }
    PyRef read = capture.admit_value(value, parameter.items[i]);
    numbers = numbers || read.get() != value;
    PyList_SetItem(values.get(), static_cast<Py_ssize_t>(i), read.release());
  }
  if (PyTuple_Check(container) && !numbers) return PyRef::borrow(container);
  if (PyTuple_Check(container)) return capture.made(python::checked(PyList_AsTuple(values.get())));
  PyRef copy = python::checked(PyDict_Copy(container));
  Py_ssize_t position = 0;
  PyObject* key = nullptr;
  for (Py_ssize_t i = 0; PyDict_Next(container, &position, &key, nullptr); ++i)
    python::check(PyDict_SetItem(copy.get(), key, PyList_GET_ITEM(values.get(), i)) == 0);
  return capture.made(std::move(copy));
}

void Attempt::describe_frames(RecipeMaker& maker) {
  segment->old_frames = level_ + 1;
  segment->frames.resize(segment->old_frames);
  for (size_t level = 0; level < level_; ++level) segment->frames[level].is_kept = true;
  FrameEnd& here = segment->frames[level_];
  const std::vector<PyRef>& locals = interpreter_->locals();
  for (size_t i = 0; i < locals.size(); ++i) {
    if (!is_kept(level_, i, locals[i].get()))
      here.locals.emplace_back(static_cast<int32_t>(i), maker.of(locals[i].get()));
  }
  for (const PyRef& value : interpreter_->stack()) here.stack.push_back(maker.of(value.get()));
  here.next = interpreter_->next();
  here.at = interpreter_->current();
  for (size_t i = capture.stopped.size(); i-- > 0;) {
    const StoppedFrame& stopped = capture.stopped[i];
    FrameEnd& end = segment->frames.emplace_back();
    end.function = maker.of(stopped.function.get());
    for (size_t local = 0; local < stopped.locals.size(); ++local)
      end.locals.emplace_back(static_cast<int32_t>(local), maker.of(stopped.locals[local].get()));
    for (const PyRef& value : stopped.stack) end.stack.push_back(maker.of(value.get()));
    end.next = stopped.next;
    end.at = stopped.at;
  }
  segment->end = segment->frames.back().next;
}

FunctionResult Attempt::describe(Ending ending, const KeepThreadState& kept) {
  segment = std::make_shared<Segment>();
  if (capture.runs_python_again || capture.calls_leaf)
    capture.record_conditions(/*all=*/backend_.kind == Backend::Callable);
  RecipeMaker maker(capture, segment->book);
  try {
    if (!capture.inference_blocks.empty()) throw NoRecipe{capture.inference_blocks[0], "a block of inference mode"};
    if (TorchModes::current().function_modes > kept.modes().function_modes)
      throw NoRecipe{innermost_function_mode(), "a block of a mode of torch's functions"};
    if (ending == Ending::Returned) {
      segment->kind = SegmentKind::Return;
      result_ = interpreter_->take_result();
      interpreter_->drop_values();
      segment->result = maker.of(result_.get());
      gives_input = python::is_tensor(result_.get()) && capture.graph.nodes.empty();
    } else {
      segment->kind = SegmentKind::Break;
      describe_frames(maker);
    }
    PyObject* handled = start_.state->exc_info->exc_value;
    if (handled != kept.handled()) segment->handled = maker.of(handled);
    maker.add_writes();
    gives_input = gives_input && segment->book.writes.empty();
  } catch (const NoRecipe& missing) {
    no_recipe_birth = capture.birth_of(missing.object.get());
    capture.stop(ending == Ending::Returned ? BreakReason::Result : BreakReason::Value,
                 fmt::format("{} that cannot be made again", missing.what));
  }
  for (const PyRef& tensor : maker.tensors()) refuse_borrowed_leaf(tensor.get());
  if (TorchModes::current() != kept.modes()) segment->modes = TorchModes::current();
  FunctionResult returned;
  for (const PyRef& tensor : maker.tensors()) {
    capture.graph.outputs.emplace_back(capture.value_of(tensor.get()));
    if (backend_.kind == Backend::Callable) {
      result_kinds.push_back({.keeps_history = has_inner_leaf(tensor.get())});
    } else {
      result_kinds.push_back(kind_of_result(tensor.get()));
    }
    returned.tensors.push_back(capture.holds_wrappers ? at::empty({0}) : python::unpack(tensor.get()));
  }
  // What switches modes and computes nothing is no work for a graph: a segment leaves the modes as they should be.
  if (capture.mode_switches && capture.mode_switches == capture.graph.nodes.size()) capture.drop_nodes();
  returned.tree = Tree::tuple_of_leaves(returned.tensors.size());
  capture.graph.output_tree = returned.tree;
  result_ = {};
  is_described = true;
  return returned;
}

void Attempt::refuse_borrowed_leaf(PyObject* result) {
  const at::Tensor& given = python::unpack(result);
  if (!given.requires_grad()) return;
  for (const auto& [leaf, clock] : capture.borrowed_leaves) {
    if (!given.is_alias_of(python::unpack(leaf.get()))) continue;
    no_recipe_birth = clock;
    capture.stop(BreakReason::Autograd, "`.requires_grad` is set of a tensor that shares memory and is given back");
  }
}

bool Attempt::has_inner_leaf(PyObject* result) {
  const at::Tensor& given = python::unpack(result);
  if (!given.requires_grad() || capture.holds_wrappers) return false;
  const torch::autograd::Edge edge = torch::autograd::impl::gradient_edge(given);  // nobody else keeps a leaf's
  std::vector<torch::autograd::Node*> open{edge.function.get()};
  std::unordered_set<torch::autograd::Node*> seen;
  while (!open.empty()) {
    torch::autograd::Node* node = open.back();
    open.pop_back();
    if (!node || !seen.insert(node).second) continue;
    if (auto* end = dynamic_cast<torch::autograd::AccumulateGrad*>(node)) {
      PyRef leaf = python::wrap(end->variable);
      if (capture.tensor_source(leaf.get()) || capture.birth_of(leaf.get()) < 0) continue;
      if (capture.whole_stretches) return true;
      no_recipe_birth = capture.birth_of(leaf.get());
      capture.stop(BreakReason::Autograd, "a tensor that is made to require grad is given back, or what comes of it");
    }
    for (const torch::autograd::Edge& next : node->next_edges()) open.push_back(next.function.get());
  }
  return false;
}

bool Attempt::is_kept(size_t level, size_t index, PyObject* value) const {
  PyObject* before = fs_frame_locals(start_.frames[level].frame)[index];
  if (interpreter_->is_untouched(index) || (!value && !before)) return true;
  // That it is the object that was there does not tell: the next call's may be another one.
  const Source* source = value ? capture.number_source(value) : nullptr;
  if (!source && value && value == before) source = capture.source_of(value);
  if (source && !(python::is_tensor(value))) {
    const size_t place = start_.frames.first_value(level) + index;
    return !start_.shape && source->kind == AccessKind::Argument && source->index == static_cast<int64_t>(place);
  }
  if (!before || !value || !python::is_tensor(value) || !python::is_tensor(before)) return false;
  source = capture.tensor_source(value);
  return source && source == capture.source_of(before);
}

}  // namespace firesteel::capture
