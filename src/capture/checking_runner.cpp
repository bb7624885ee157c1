// FIRESTEEL_CHECK=1: compiled results beside eager ones. What is compared, and how near is near enough, Python says
// (python/firesteel/_check.py).
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "capture/describe.h"
#include "capture/segment.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace nb = nanobind;

namespace firesteel::capture {
namespace {

class CheckingRunner final : public Runner {
 public:
  CheckingRunner(std::unique_ptr<Runner> inner, std::unique_ptr<Runner> eager, std::vector<uint32_t> inputs,
                 size_t slot_count, const Segment& segment)
      : inner_(std::move(inner)),
        eager_(std::move(eager)),
        inputs_(std::move(inputs)),
        slot_count_(slot_count),
        segment_(segment) {}

  bool run(PyObject* const* slots, std::vector<PyRef>& outputs) const override {
    check(slots);
    return inner_->run(slots, outputs);
  }
  const Executable* executable() const override { return inner_->executable(); }
  double compile_seconds() const override { return inner_->compile_seconds(); }
  int traverse(visitproc visit, void* arg) const override {
    if (int stopped = eager_->traverse(visit, arg)) return stopped;
    return inner_->traverse(visit, arg);
  }

 private:
  // The call's slots with other inputs in them, wherever they stand: one tensor may be several arguments.
  std::vector<PyObject*> with(PyObject* const* slots, const nb::list& inputs) const {
    std::vector<PyObject*> changed(slots, slots + slot_count_);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (python::is_tensor(slots[inputs_[i]]))
        std::replace(changed.begin(), changed.end(), slots[inputs_[i]], inputs[i].ptr());
    }
    return changed;
  }

  static nb::object results(const Runner& runner, const std::vector<PyObject*>& slots) {
    std::vector<PyRef> outputs;
    if (!runner.run(slots.data(), outputs)) return nb::none();
    nb::list given;
    for (PyRef& output : outputs) given.append(nb::steal(output.release()));
    return given;
  }

  nb::list kernels(const std::vector<PyObject*>& slots) const {
    nb::list rows;
    for (const KernelResult& it : inner_->compare_kernels(slots.data())) {
      rows.append(nb::make_tuple(it.is_backward, it.kernel, nb::steal(python::wrap(it.native).release()),
                                 nb::steal(python::wrap(it.aten).release())));
    }
    return rows;
  }

  nb::list parts(const std::vector<PyObject*>& slots) const {
    nb::list rows;
    for (const GraphWithInputs& it : inner_->parts_for(slots.data())) {
      nb::list inputs;
      for (const at::Tensor& input : it.inputs) inputs.append(nb::steal(python::wrap(input).release()));
      rows.append(nb::make_tuple(it.graph.str(), inputs));
    }
    return rows;
  }

  // Raises where the two differ. The functions that Python gets live no longer than this call.
  void check(PyObject* const* slots) const {
    PyRef module = python::checked(PyImport_ImportModule("firesteel._check"));
    nb::list inputs;
    for (uint32_t slot : inputs_) inputs.append(nb::borrow(slots[slot]));
    auto run_with = [this, slots](const Runner* runner) {
      return nb::cpp_function(
          [this, slots, runner](const nb::list& given) { return results(*runner, with(slots, given)); });
    };
    const nb::object compare_kernels =
        nb::cpp_function([this, slots](const nb::list& given) { return kernels(with(slots, given)); });
    const nb::object part_inputs =
        nb::cpp_function([this, slots](const nb::list& given) { return parts(with(slots, given)); });
    const nb::object piece = nb::cpp_function([this] { return describe(segment_); });
    const nb::object eagerly = run_with(eager_.get()), compiled = run_with(inner_.get());
    PyRef compare = python::checked(PyObject_GetAttrString(module.get(), "compare"));
    python::checked(PyObject_CallFunctionObjArgs(compare.get(), inputs.ptr(), eagerly.ptr(), compiled.ptr(),
                                                 compare_kernels.ptr(), part_inputs.ptr(), piece.ptr(), nullptr));
  }

  std::unique_ptr<Runner> inner_, eager_;
  std::vector<uint32_t> inputs_;
  size_t slot_count_;
  const Segment& segment_;
};

}  // namespace

bool results_are_checked() {
  const char* set = std::getenv("FIRESTEEL_CHECK");
  return set && *set && std::string_view(set) != "0";
}

std::unique_ptr<Runner> make_checking_runner(std::unique_ptr<Runner> inner, std::unique_ptr<Runner> eager,
                                             std::vector<uint32_t> inputs, size_t slot_count, const Segment& segment) {
  return std::make_unique<CheckingRunner>(std::move(inner), std::move(eager), std::move(inputs), slot_count, segment);
}

}  // namespace firesteel::capture
