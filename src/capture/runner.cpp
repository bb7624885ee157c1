// The two ways to run a captured graph.
#include "capture/runner.h"

#include <algorithm>
#include <deque>
#include <unordered_set>

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "aot/data_ops.h"
#include "graph/data_symbols.h"
#include "python/errors.h"
#include "python/pytree.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

struct BackendRow {
  std::string_view name, what;
  Backend backend;
};
constexpr BackendRow kBackends[] = {
#define X(name, text, what) {text, what, Backend::name},
    FIRESTEEL_BACKENDS(X)
#undef X
};

// ---- eager

// Where a call finds one of its arguments: a slot, a constant, or a nest of both.
struct Operand {
  int32_t slot = -1;
  bool last_use = false;
  PyObject* constant = nullptr;  // of the entry's holdings
  std::unique_ptr<Tree> tree;
  std::vector<int32_t> leaves;
};

struct Call {
  PyObject* callable;  // of the entry's holdings
  std::vector<Operand> operands;
  size_t positional = 0;
  PyRef keywords;
  struct Result {
    std::vector<Py_ssize_t> way;
    int32_t slot;
    const Type* expected = nullptr;  // where sizes depend on data, and the captured code may have gone by it
  };
  std::vector<Result> results;
  std::vector<int32_t> frees;
  SourceRef source;  // the user's line
};

PyRef follow(PyRef value, const std::vector<Py_ssize_t>& way) {
  for (Py_ssize_t step : way) {
    if (step < 0) value = checked(PyDict_Values(value.get()));
    value = checked(PySequence_GetItem(value.get(), step < 0 ? ~step : step));
  }
  return value;
}

class EagerRunner final : public Runner {
 public:
  EagerRunner(const Graph& graph, std::vector<uint32_t> inputs, guards::Holdings& holdings)
      : inputs_(std::move(inputs)) {
    const bool checks = has_data_symbols(graph);
    std::unordered_map<const Value*, int32_t> slots;
    for (const Input& input : graph.inputs) slots.emplace(input.value.get(), static_cast<int32_t>(slots.size()));
    for (const auto& node : graph.nodes) {
      const auto& recorded = *static_cast<const TorchCall*>(node->op.callee.get());
      Call& call = calls_.emplace_back();
      call.callable = take(recorded.callable.get(), holdings);
      call.positional = recorded.args.children.size();
      call.source = node->source;
      std::vector<int32_t> leaves;
      node->each_input([&](const Value* value) { leaves.push_back(slots.at(value)); });
      size_t next = 0;
      for (const Tree* side : {&recorded.args, &recorded.kwargs}) {
        for (const Tree& child : side->children) call.operands.push_back(operand(child, leaves, next, holdings));
      }
      if (!recorded.kwargs.children.empty()) call.keywords = keyword_names(recorded.kwargs);
      for (size_t i = 0; i < node->outputs.size(); ++i) {
        const auto slot = static_cast<int32_t>(slots.size());
        slots.emplace(node->outputs[i].get(), slot);
        call.results.push_back({recorded.results[i], slot});
        if (checks && node->outputs[i]->type.is_tensor())
          call.results.back().expected = &types_.emplace_back(node->outputs[i]->type);
      }
    }
    for (const Arg& output : graph.outputs) outputs_.push_back(slots.at(output.value));
    slot_count_ = slots.size();
    plan_frees();
  }

  bool run(PyObject* const* given, std::vector<PyRef>& outputs) const override {
    std::vector<PyRef> slots(slot_count_), pins;
    pins.reserve(pins_.size());
    for (PyObject* object : pins_) pins.push_back(PyRef::borrow(object));
    for (size_t i = 0; i < inputs_.size(); ++i) slots[i] = PyRef::borrow(given[inputs_[i]]);
    for (const Call& call : calls_) execute(call, slots);
    outputs.reserve(outputs_.size());
    for (int32_t slot : outputs_) outputs.push_back(slots[slot]);
    return true;
  }

 private:
  PyObject* take(PyObject* object, guards::Holdings& holdings) {
    // What no guard knows may have been made for this graph alone.
    if (!holdings.holds_weakly(object)) return holdings.keep(object);
    if (known_.insert(object).second) pins_.push_back(object);
    return object;
  }

  Operand operand(const Tree& tree, const std::vector<int32_t>& leaves, size_t& next, guards::Holdings& holdings) {
    Operand made;
    if (tree.kind == TreeKind::Leaf) {
      made.slot = leaves.at(next++);
    } else if (tree.kind == TreeKind::Constant) {
      made.constant = take(static_cast<PyRef*>(tree.context.get())->get(), holdings);
    } else {
      made.tree = std::make_unique<Tree>(tree);
      for (size_t i = tree.leaf_count(); i-- > 0;) made.leaves.push_back(leaves.at(next++));
    }
    return made;
  }

  static PyRef keyword_names(const Tree& kwargs) {
    PyRef names = checked(PyTuple_New(static_cast<Py_ssize_t>(kwargs.keys.size())));
    for (size_t i = 0; i < kwargs.keys.size(); ++i) {
      PyTuple_SET_ITEM(names.get(), i, PyUnicode_InternFromString(kwargs.keys[i].c_str()));
    }
    return names;
  }

  // Each slot is let go after its last use, so that memory is freed as eager frees it.
  void plan_frees() {
    std::vector<bool> kept(slot_count_, false);
    for (int32_t slot : outputs_) kept[slot] = true;
    for (size_t i = calls_.size(); i-- > 0;) {
      Call& call = calls_[i];
      auto use = [&](int32_t slot) {
        if (!kept[slot]) call.frees.push_back(slot);
        kept[slot] = true;
      };
      for (const Call::Result& result : call.results) use(result.slot);
      for (const Operand& operand : call.operands) {
        if (operand.slot >= 0) use(operand.slot);
        for (int32_t slot : operand.leaves) use(slot);
      }
    }
  }

  // The captured code went on for a result of so many dimensions.
  static void check_sizes(const Call& call, const Type& expected, PyObject* result) {
    const at::Tensor& tensor = python::unpack(result);
    bool fits = tensor.dim() == static_cast<int64_t>(expected.sizes.size());
    for (int64_t d = 0; fits && d < tensor.dim(); ++d)
      fits = !expected.sizes[d].is_number() || expected.sizes[d].number() == tensor.size(d);
    if (fits) return;
    PyErr_Format(PyExc_RuntimeError,
                 "the compiled code takes for granted that a result is %s, and for this data it is not\n  at %s\n"
                 "  try: torch._check() to say what sizes there are, or drop fullgraph=True",
                 expected.str().c_str(), call.source ? call.source->str().c_str() : "");
    python::throw_python_error();
  }

  static void execute(const Call& call, std::vector<PyRef>& slots) {
    c10::SmallVector<PyObject*, 8> raw{nullptr};
    std::vector<PyRef> made;
    for (const Operand& operand : call.operands) {
      if (operand.slot >= 0) {
        raw.push_back(slots[operand.slot].get());
      } else if (!operand.tree) {
        raw.push_back(operand.constant);
      } else {
        std::vector<PyRef> leaves;
        for (int32_t slot : operand.leaves) leaves.push_back(slots[slot]);
        size_t next = 0;
        raw.push_back(made.emplace_back(python::unflatten(*operand.tree, leaves, next)).get());
      }
    }
    PyRef result = PyRef::steal(PyObject_Vectorcall(
        call.callable, raw.data() + 1, call.positional | PY_VECTORCALL_ARGUMENTS_OFFSET, call.keywords.get()));
    if (!result) {
      // The traceback names the user's line, though no frame of it was there.
      if (call.source)
        _PyTraceback_Add(call.source->function.c_str(), call.source->file->path.c_str(),
                         static_cast<int>(call.source->line));
      python::throw_python_error();
    }
    for (const Call::Result& wanted : call.results) {
      slots[wanted.slot] = wanted.way.empty() ? result : follow(result, wanted.way);
      if (wanted.expected) check_sizes(call, *wanted.expected, slots[wanted.slot].get());
    }
    for (int32_t slot : call.frees) slots[slot] = {};
  }

  std::vector<uint32_t> inputs_;
  std::vector<Call> calls_;
  std::deque<Type> types_;       // that results are looked at for
  std::vector<PyObject*> pins_;  // held weakly, and needed until the run has ended
  std::unordered_set<PyObject*> known_;
  std::vector<int32_t> outputs_;
  size_t slot_count_ = 0;
};

// ---- aot_eager

class AotRunner final : public Runner {
 public:
  AotRunner(Executable executable, std::vector<uint32_t> inputs, std::vector<int32_t> captured)
      : executable_(std::move(executable)), inputs_(std::move(inputs)), captured_(std::move(captured)) {
    const std::vector<at::Tensor> tensors = executable_.signature().captured();
    for (size_t i = 0; i < captured_.size(); ++i) constants_.push_back(captured_[i] < 0 ? tensors[i] : at::Tensor());
  }

  bool run(PyObject* const* slots, std::vector<PyRef>& outputs) const override {
    std::vector<at::Tensor> inputs, captured, results;
    if (!take(slots, inputs, captured)) return false;
    try {
      python::with_torch_warnings([&] {
        python::GilRelease no_gil;
        // Under no_grad a backward is there only because the captured code switched gradients on.
        at::AutoGradMode mode(c10::GradMode::is_enabled() || executable_.backward());
        results = executable_(inputs, captured);
      });
    } catch (const DataMismatch&) {
      throw;
    } catch (...) {
      python::set_python_error(std::current_exception());
      PyObject* type = PyErr_Occurred();
      if (!type || !std::string_view(reinterpret_cast<PyTypeObject*>(type)->tp_name).ends_with("InputMismatchError")) {
        python::throw_python_error();
      }
      PyErr_Clear();
      return false;
    }
    outputs.reserve(results.size());
    for (const at::Tensor& result : results) outputs.push_back(python::wrap(result));
    return true;
  }

  const Executable* executable() const override { return &executable_; }

  std::vector<KernelResult> compare_kernels(PyObject* const* slots) const override {
    std::vector<at::Tensor> inputs, captured;
    if (!take(slots, inputs, captured)) return {};
    return executable_.compare_kernels(inputs, captured);
  }

  std::vector<GraphWithInputs> parts_for(PyObject* const* slots) const override {
    std::vector<at::Tensor> inputs, captured;
    if (!take(slots, inputs, captured)) return {};
    return executable_.parts_for(inputs, captured);
  }

 private:
  // The tensors of a call; false where one of them is none.
  bool take(PyObject* const* slots, std::vector<at::Tensor>& inputs, std::vector<at::Tensor>& captured) const {
    inputs.reserve(inputs_.size());
    for (uint32_t slot : inputs_) {
      const bool number = is_number(slots[slot]) || PyBool_Check(slots[slot]);
      inputs.push_back(number ? python::number_tensor(slots[slot]) : python::unpack(slots[slot]));
      if (!inputs.back().defined()) return false;
    }
    // The first reference that is not Python's own goes through Python: it is taken here, where the GIL is held.
    captured.reserve(captured_.size());
    for (size_t i = 0; i < captured_.size(); ++i)
      captured.push_back(captured_[i] < 0 ? constants_[i] : python::unpack(slots[captured_[i]]));
    return true;
  }

  Executable executable_;
  std::vector<uint32_t> inputs_;
  std::vector<int32_t> captured_;
  std::vector<at::Tensor> constants_;
};

}  // namespace

std::optional<Backend> backend_named(std::string_view name) {
  for (const BackendRow& row : kBackends) {
    if (row.name == name) return row.backend;
  }
  return std::nullopt;
}

std::vector<std::pair<std::string_view, std::string_view>> backend_rows() {
  std::vector<std::pair<std::string_view, std::string_view>> rows;
  for (const BackendRow& row : kBackends) rows.emplace_back(row.name, row.what);
  return rows;
}

std::unique_ptr<Runner> make_eager_runner(const Graph& graph, std::vector<uint32_t> inputs,
                                          guards::Holdings& holdings) {
  return std::make_unique<EagerRunner>(graph, std::move(inputs), holdings);
}
std::unique_ptr<Runner> make_aot_runner(Executable executable, std::vector<uint32_t> inputs,
                                        std::vector<int32_t> captured) {
  return std::make_unique<AotRunner>(std::move(executable), std::move(inputs), std::move(captured));
}

}  // namespace firesteel::capture
