// Spells the ways to a graph's inputs as PyTorch does, and takes computed numbers apart.
#include "capture/backend_inputs.h"

#include <fmt/format.h>

#include "capture/callables.h"
#include "capture/input_names.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/user_frames.h"

namespace firesteel::capture {
namespace {

using guards::AccessKind;
using guards::Source;
using python::checked;

std::string variable(std::string_view scope, std::string_view name) { return fmt::format("{}['{}']", scope, name); }

std::string name_at(PyObject* names, Py_ssize_t index) {
  const bool there = index >= 0 && index < PyTuple_GET_SIZE(names);
  return there ? std::string(python::text_of(PyTuple_GET_ITEM(names, index))) : std::string();
}

bool is_root(const Source* source) { return source && source->kind == AccessKind::Function; }

// The variables and the stack of a frame that waits at a graph break.
void add_frame_values(FsFrame* frame, std::vector<std::string>& paths) {
  const PyCodeObject* code = fs_frame_code(frame);
  PyObject** values = fs_frame_locals(frame);
  for (int i = 0; i < code->co_nlocalsplus; ++i) paths.push_back(variable("L", name_at(code->co_localsplusnames, i)));
  int number = 0;  // empty places on the stack do not count
  for (int i = 0; i < fs_frame_depth(frame); ++i) {
    paths.push_back(variable("L", fmt::format("___stack{}", number)));
    number += values[code->co_nlocalsplus + i] != nullptr;
  }
}

}  // namespace

BackendPaths::BackendPaths(const SegmentStart& start) : function_(PyRef::borrow(start.frames.function())) {
  if (!start.shape) {
    for (size_t level = 0; level < start.frames.size(); ++level) add_frame_values(start.frames[level].frame, values_);
    for (size_t level = 1; level < start.frames.size(); ++level)
      values_.push_back(variable("L", python::text_of(fs_frame_code(start.frames[level].frame)->co_name)));
    return;
  }
  calls_module_ = calls_a_module(fs_frame_code(start.frame()), *fs_frame_locals(start.frame()));
  if (!calls_module_) return;
  ForwardParameters forward = parameters_of_forward(*fs_frame_locals(start.frame()));
  if (!forward.of_library) forward_ = std::move(forward.names);
}

std::string BackendPaths::of(const Source* source) const {
  const Source* parent = source->parent;
  switch (source->kind) {
    case AccessKind::Argument:
      return values_.empty() ? of_argument(source->name) : values_.at(source->index);
    case AccessKind::Pinned:
    case AccessKind::Kept:
      return source->name.empty() ? "G" : variable("G", source->name);
    case AccessKind::FunctionGlobals:
      return "G";
    case AccessKind::DictItem:
      if (parent->kind == AccessKind::InstanceDict)
        return fmt::format("{}.{}", of(parent->parent), python::text_of(source->key.get()));
      if (parent->kind == AccessKind::FunctionKwDefaults && is_root(parent->parent))
        return variable("L", python::text_of(source->key.get()));
      return fmt::format("{}[{}]", of(parent), python::spell(source->key.get()));
    case AccessKind::SequenceItem:
      if (parent->kind == AccessKind::FunctionDefaults && is_root(parent->parent))
        return variable("L", of_default(source->index));
      return of_item(*source);
    case AccessKind::CellContents:
      if (parent->kind == AccessKind::SequenceItem && is_root(parent->parent->parent))
        return variable("L", parent->name);
      return parent->is_object() ? variable("L", parent->name) : of(parent) + ".cell_contents";
    case AccessKind::InstanceDict:
      return of(parent) + ".__dict__";
    case AccessKind::Member:
      return fmt::format("{}.{}", of(parent),
                         python::text_of(reinterpret_cast<PyDescrObject*>(source->key.get())->d_name));
    case AccessKind::FunctionClosure:
      return of(parent) + ".__closure__";
    case AccessKind::MethodSelf:
      return of(parent) + ".__self__";
    case AccessKind::Grad:
      return of(parent) + ".grad";
    case AccessKind::Size:
      return fmt::format("{}.size()[{}]", of(parent), source->index);
    case AccessKind::Computed:
      return source->second ? source->str() : of(parent);  // `from_numpy(a)` is `a` in PyTorch's graphs
    default:
      return source->str();
  }
}

std::string BackendPaths::of_item(const Source& item) const {
  const Source* rest = item.parent;
  const bool of_forward = calls_module_ && rest->kind == AccessKind::Argument && rest->name == "args";
  if (of_forward && static_cast<size_t>(item.index) + 1 < forward_.size())
    return variable("L", forward_[item.index + 1]);
  return fmt::format("{}[{}]", of(rest), item.index);
}

// `x`, or an item of what collects the rest: `args[0]`, `kwargs['scale']`.
std::string BackendPaths::of_argument(const std::string& name) const {
  const size_t end = name.find('[');
  const std::string root = name.substr(0, end), rest = end == std::string::npos ? std::string() : name.substr(end);
  if (!calls_module_) return variable("L", root) + rest;
  if (root == "self") return variable("L", forward_.empty() ? "fn" : forward_[0]) + rest;
  if (forward_.empty() || rest.empty()) return variable("L", root) + rest;
  if (root == "kwargs") return "L" + rest;
  const size_t place = std::strtoul(rest.c_str() + 1, nullptr, 10) + 1, close = rest.find(']');
  if (root != "args" || place >= forward_.size() || close == std::string::npos) return variable("L", root) + rest;
  return variable("L", forward_[place]) + rest.substr(close + 1);
}

std::string BackendPaths::of_default(int64_t index) const {
  if (!PyFunction_Check(function_.get())) return {};
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function_.get()));
  PyObject* defaults = PyFunction_GET_DEFAULTS(function_.get());
  const Py_ssize_t first = code->co_argcount - (defaults ? PyTuple_GET_SIZE(defaults) : 0);
  return name_at(code->co_localsplusnames, first + index);
}

namespace {

bool is_of_module(const Source* source) {
  if (source->kind != AccessKind::DictItem || !source->parent || source->parent->kind != AccessKind::DictItem)
    return false;
  const std::string_view held = python::text_of(source->parent->key.get());
  return held == "_parameters" || held == "_buffers";
}

PyRef number_of(const Source* source, const BackendPaths& paths) {
  if (source->is_object() && is_number(source->key.get())) return source->key;
  if (source->kind == AccessKind::Size)
    return checked(
        Py_BuildValue("(ssL)", "size", paths.of(source->parent).c_str(), static_cast<long long>(source->index)));
  if (source->kind != AccessKind::Computed) return checked(Py_BuildValue("(ss)", "number", paths.of(source).c_str()));
  PyRef first = number_of(source->parent, paths);
  if (!source->second) return checked(PyTuple_Pack(2, source->key.get(), first.get()));
  return checked(PyTuple_Pack(3, source->key.get(), first.get(), number_of(source->second, paths).get()));
}

}  // namespace

std::vector<BackendInput> backend_inputs(const Capture& capture, const BackendPaths& paths,
                                         const std::vector<uint32_t>& slots) {
  const std::vector<std::vector<DynamicDim>> open = capture.dynamic_dims();
  std::vector<BackendInput> inputs;
  for (size_t i = 0; i < slots.size(); ++i) {
    const Source* source = capture.input_sources[i];
    BackendInput& input = inputs.emplace_back(BackendInput{slots[i], paths.of(source), {}, {}, {}, {}});
    const auto load = capture.loads.find(capture.graph.inputs[i].value.get());
    if (load != capture.loads.end() && is_of_module(source)) input.calls_before = load->second;
    const Type& type = capture.graph.inputs[i].value->type;
    const auto rank = static_cast<int32_t>(type.sizes.size());
    for (const DynamicDim& dim : i < open.size() ? open[i] : std::vector<DynamicDim>()) {
      input.open.push_back(dim.least < 2 ? dim.dim - rank : dim.dim);
      if (dim.apart) input.apart.push_back(dim.dim);
    }
    if (!type.is_tensor()) input.number = number_of(source, paths);
  }
  return inputs;
}

}  // namespace firesteel::capture
