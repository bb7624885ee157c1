// Python's way to the controls: marks on callables, stances, and the questions code may ask about itself.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "aot/functional_ops.h"
#include "aot/trace.h"
#include "capture/allowance.h"
#include "capture/arrays.h"
#include "capture/bindings.h"
#include "capture/callables.h"
#include "capture/events.h"
#include "capture/exception_form.h"
#include "capture/frame_hook.h"
#include "capture/marked_calls.h"
#include "capture/marked_function.h"
#include "capture/marks.h"
#include "capture/modes.h"
#include "capture/region.h"
#include "capture/show_inside.h"
#include "capture/size_settings.h"
#include "capture/stance.h"
#include "guards/ambient.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace nb = nanobind;

namespace firesteel::capture {
namespace {

struct MarkName {
  const char* name;
  Mark mark;
};
constexpr MarkName kMarks[] = {
#define X(name, what) {#name, Mark::name},
    FIRESTEEL_MARKS(X)
#undef X
};
struct FunctionMarkName {
  const char* name;
  FunctionMark mark;
};
constexpr FunctionMarkName kFunctionMarks[] = {{"Nonstrict", FunctionMark::Nonstrict},
                                               {"Disabled", FunctionMark::Disabled},
                                               {"Skipped", FunctionMark::Skipped},
                                               {"RunOnly", FunctionMark::RunOnly}};

template <class Row, size_t kSize>
const Row& named(const Row (&rows)[kSize], const std::string& name) {
  for (const Row& row : rows) {
    if (name == row.name) return row;
  }
  throw nb::value_error(("there is no mark " + name).c_str());
}

void set_mark_named(nb::handle callable, const std::string& name, nb::handle object, const std::string& reason) {
  PyObject* kept = object.is_none() ? nullptr : object.ptr();
  set_mark(callable.ptr(), {named(kMarks, name).mark, PyRef::borrow(kept), reason});
}

std::string mark_name(nb::handle callable) { return kMarks[static_cast<size_t>(mark_of(callable.ptr()).mark)].name; }

nb::object marked_function(nb::handle function, const std::string& name, const std::string& reason) {
  return nb::steal(new_marked_function(function.ptr(), named(kFunctionMarks, name).mark, reason).release());
}

nb::object function_mark_name(nb::handle object) {
  if (!marked_callable(object.ptr())) return nb::none();
  return nb::str(kFunctionMarks[static_cast<size_t>(mark_on(object.ptr()))].name);
}

bool is_torch_function(nb::handle callable) {
  prepare_tables();
  return torch_leaf(callable.ptr()) || forbidden_leaf(callable.ptr()) || is_torch_op(callable.ptr());
}

nb::dict stances() {
  nb::dict rows;
  for (const auto& [name, what] : stance_rows())
    rows[nb::str(name.data(), name.size())] = nb::str(what.data(), what.size());
  return rows;
}

// Gives what held before.
nb::tuple set_stance(const std::string& name, const nb::object& backend) {
  static auto* backends = new std::vector<PyRef>;  // as given, for the way back
  const std::optional<StanceKind> kind = stance_named(name);
  if (!kind) throw nb::value_error(("there is no stance " + name).c_str());
  std::optional<BackendChoice> choice;
  if (!backend.is_none()) choice = backend_from(backend);
  const std::string_view before = stance_rows()[static_cast<size_t>(stance().kind)].first;
  PyRef old = backends->empty() ? PyRef::borrow(Py_None) : std::move(backends->back());
  backends->assign(1, PyRef::borrow(backend.ptr()));
  stance() = {*kind, std::move(choice)};
  return nb::make_tuple(nb::str(before.data(), before.size()), nb::steal(old.release()));
}

// None, False, True: nothing said, breaks allowed, breaks are errors. Gives what held before.
nb::object set_break_policy(const nb::object& policy) {
  using guards::BreakPolicy;
  const BreakPolicy before = guards::break_policy();
  guards::break_policy() = policy.is_none()         ? BreakPolicy::Unsaid
                           : nb::cast<bool>(policy) ? BreakPolicy::Error
                                                    : BreakPolicy::Allowed;
  if (before == BreakPolicy::Unsaid) return nb::none();
  return nb::bool_(before == BreakPolicy::Error);
}

}  // namespace

void bind_controls(nb::module_& module) {
  module.def("is_compiling", &is_tracing, "True where the code is being captured or traced; false in eager stretches.");
  module.def(
      "is_dynamo_compiling", [] { return current_capture() != nullptr; },
      "True where the code is being captured; false in what is only traced, and in eager stretches.");
  module.def(
      "is_exporting", [] { return false; }, "Always false: Firesteel does not export.");
  module.def("_set_mark", &set_mark_named, nb::arg("callable"), nb::arg("mark"), nb::arg("object").none() = nb::none(),
             nb::arg("reason") = "");
  module.def("_mark_of", &mark_name, nb::arg("callable"));
  module.def("_marked_function", &marked_function, nb::arg("function"), nb::arg("mark"), nb::arg("reason") = "");
  module.def("_function_mark", &function_mark_name, nb::arg("object").none());
  module.def("_is_torch_function", &is_torch_function, nb::arg("callable"));
  module.def("_stances", &stances, "The stances' names, and what they mean.");
  module.def("_set_stance", &set_stance, nb::arg("name"), nb::arg("backend").none());
  module.def("_enter_inference_mode", &enter_inference_mode, nb::arg("enabled"));
  module.def("_leave_inference_mode", &leave_inference_mode);
  module.def("_torch_function_state", &torch_function_state);
  module.def("_set_torch_function_state", &set_torch_function_state, nb::arg("state"));
  module.def(
      "_break_for_array", [](nb::handle) {}, nb::arg("what"),
      "Breaks the graph: numpy is used in a way that none holds.");
  module.def(
      "_write_to_array", [] {}, "Before an array from outside is written to: breaks the graph where that cannot be.");
  module.def("_set_break_policy", &set_break_policy, nb::arg("policy").none());
  module.def(
      "_set_capture_listener", [](nb::handle listener) { set_capture_listener(listener.ptr()); },
      nb::arg("listener").none());
  module.def(
      "_set_error_provider", [](nb::handle provider) { python::set_error_provider(provider.ptr()); },
      nb::arg("provider").none());
  module.def(
      "_set_compile_watcher", [](nb::handle watcher) { set_compile_watcher(watcher.ptr()); },
      nb::arg("watcher").none());
  module.def(
      "_set_array_rules",
      [](nb::handle stand_in, nb::handle always, nb::handle with_arrays) {
        set_array_rules(stand_in.ptr(), always.ptr(), with_arrays.ptr());
      },
      nb::arg("stand_in").none(), nb::arg("always") = nb::dict(), nb::arg("with_arrays") = nb::dict());
  module.def(
      "_fix_numbers",
      [](bool ints, bool floats, bool global_ints, bool module_ints) {
        fixed_numbers() = {ints, floats, global_ints, module_ints};
      },
      nb::arg("ints"), nb::arg("floats"), nb::arg("global_ints") = false, nb::arg("module_ints") = false);
  module.def(
      "_capture_data",
      [](bool numbers, bool sizes, bool asserts) {
        captured_data() = {numbers, sizes, asserts};
      },
      nb::arg("numbers"), nb::arg("sizes"), nb::arg("asserts") = false);
  module.def(
      "_set_operator_gate", [](nb::handle gate) { set_operator_gate(gate.ptr()); }, nb::arg("gate").none());
  module.def("_open_sources", &set_open_sources, nb::arg("patterns"), nb::arg("unbacked"));
  module.def(
      "_set_inside_view", [](nb::handle callable, nb::handle show) { set_inside_view(callable.ptr(), show.ptr()); },
      nb::arg("callable").none(), nb::arg("show").none() = nb::none());
  module.def(
      "_set_size_rules",
      [](bool parameters_change, bool changed_take_any, bool ignores_marks, std::vector<int64_t> open_values) {
        size_settings() = {parameters_change, changed_take_any, ignores_marks, std::move(open_values)};
      },
      nb::arg("parameters_change") = false, nb::arg("changed_take_any") = false, nb::arg("ignores_marks") = false,
      nb::arg("open_values") = std::vector<int64_t>());
  module.def(
      "_lift_tensors", [](bool lift) { lifts_tensors() = lift; }, nb::arg("lift"));
  module.def(
      "_set_exception_form", [](nb::handle form) { set_exception_form(form.ptr()); }, nb::arg("form").none());
  module.def(
      "_lie_apart",
      [](nb::handle one, nb::handle other) {
        return lie_apart(python::unpack(one.ptr()), python::unpack(other.ptr()));
      },
      nb::arg("one"), nb::arg("other"));
  module.def(
      "_follow_inner_breaks", [](bool follow) { return std::exchange(follows_inner_breaks(), follow); },
      nb::arg("follow"), "Whether a break inside a function that was inlined ends the piece there, or at the call.");
  module.def(
      "_tensor_of_read_only",
      [](nb::handle array) -> nb::object {
        if (nb::cast<bool>(array.attr("flags").attr("writeable"))) throw nb::value_error("the array may be written to");
        return nb::module_::import_("torch").attr("from_numpy")(array.attr("copy")());
      },
      nb::arg("array"), "A tensor over a copy of an array that must not be written to.");
  module.def(
      "_tensor_of_writable",
      [](nb::handle array) -> nb::object {
        if (!nb::cast<bool>(array.attr("flags").attr("writeable"))) throw nb::value_error("the array is read-only");
        return nb::module_::import_("torch").attr("from_numpy")(array);
      },
      nb::arg("array"), "The tensor over the memory of an array that may be written to.");
  module.def("_follows_arrays", [] { return array_type() != nullptr; });
  module.def("_forget_custom_forms", &forget_custom_forms);
  module.def("_reset", &Region::reset_all, "Forgets all that was compiled.");
}

}  // namespace firesteel::capture
