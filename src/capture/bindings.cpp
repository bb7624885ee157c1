// Python's way to compiled functions: made by _compile_function, asked by counters().
#include "capture/bindings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/progress.h"
#include "capture/callables.h"
#include "capture/compiled_function.h"
#include "capture/counters.h"
#include "capture/describe.h"
#include "capture/events.h"
#include "capture/frame_hook.h"
#include "capture/frame_interpreter.h"
#include "capture/kept_numbers.h"
#include "capture/oracle.h"
#include "compiler.h"
#include "firesteel/native_code.h"
#include "python/constants.h"
#include "python/errors.h"

namespace nb = nanobind;

namespace firesteel::capture {
namespace {

nb::object give(PyRef object) { return nb::steal(object.release()); }

// ({"x": [(least, most), 3, None]}, ["n"]): open, of this size, of whatever size it has; and ints that change.
std::shared_ptr<const SizeSpec> size_spec_from(nb::handle object) {
  auto spec = std::make_shared<SizeSpec>();
  for (const auto& [name, sizes] : nb::cast<nb::dict>(object[0])) {
    std::vector<SizeSpec::Size>& made = spec->tensors[nb::cast<std::string>(name)];
    for (nb::handle size : sizes) {
      if (size.is_none()) {
        made.push_back({});
      } else if (nb::isinstance<nb::tuple>(size)) {
        made.push_back({true, nb::cast<int64_t>(size[0]), nb::cast<int64_t>(size[1])});
      } else {
        const auto fixed = nb::cast<int64_t>(size);
        made.push_back({false, fixed, fixed});
      }
    }
  }
  for (nb::handle name : object[1]) spec->numbers.insert(nb::cast<std::string>(name));
  return spec;
}

nb::object compile_function(nb::handle callable, const nb::object& backend, bool fullgraph, size_t recompile_limit,
                            bool notes_recompiles, bool wait, bool isolated, std::optional<bool> dynamic,
                            const nb::object& spec, bool freeze, const nb::object& guard_filter) {
  PyObject* function = PyMethod_Check(callable.ptr()) ? PyMethod_GET_FUNCTION(callable.ptr()) : callable.ptr();
  if (!PyFunction_Check(function)) {
    throw nb::type_error(fmt::format("a Python function is needed, not {}", python::spell(callable.ptr())).c_str());
  }
  BackendChoice choice = backend_from(backend);
  choice.wait = wait;
  choice.freeze = freeze;
  if (!guard_filter.is_none()) choice.guard_filter = PyRef::borrow(guard_filter.ptr());
  if (dynamic) choice.sizes = *dynamic ? SizePolicy::All : SizePolicy::None;
  if (!spec.is_none()) {
    choice.sizes = SizePolicy::None;
    choice.spec = size_spec_from(spec);
  }
  return give(new_compiled_function(callable.ptr(),
                                    {std::move(choice), fullgraph, recompile_limit, notes_recompiles, isolated}));
}

nb::dict backends() {
  nb::dict rows;
  for (const auto& [name, what] : backend_rows()) {
    rows[nb::str(name.data(), name.size())] = nb::str(what.data(), what.size());
  }
  return rows;
}

nb::dict counters_now() {
  const Counters& now = counters();
  auto by_reason = [](const auto& counts) {
    nb::dict shown;
    for (size_t i = 0; i < Counters::kReasons; ++i) {
      if (counts[i]) shown[row(static_cast<BreakReason>(i)).id] = counts[i];
    }
    return shown;
  };
  nb::dict result;
  result["captured"] = now.captured;
  result["hits"] = now.hits;
  result["misses"] = now.misses;
  result["breaks"] = by_reason(now.breaks);
  result["fallbacks"] = by_reason(now.fallbacks);
  return result;
}

const Region& region_or_refuse(nb::handle compiled) {
  const Region* region = region_of(compiled.ptr());
  if (!region) throw nb::type_error("a compiled function is needed");
  return *region;
}

nb::list entries_of(const Region& region) {
  nb::list result;
  for (const auto& segment : region.segments()) result.append(describe(*segment));
  return result;
}

nb::list recompiles_of(const Region& region) {
  nb::list result;
  for (const Recompile& note : region.recompiles()) result.append(describe(note));
  return result;
}

nb::list regions() {
  nb::list result;
  for (const Region* region : Region::all()) result.append(nb::make_tuple(entries_of(*region), recompiles_of(*region)));
  return result;
}

nb::dict break_reasons() {
  nb::dict rows;
  for (size_t i = 0; i < Counters::kReasons; ++i) {
    const BreakRow& words = row(static_cast<BreakReason>(i));
    rows[words.id] = nb::make_tuple(words.what, words.why, words.next);
  }
  return rows;
}

}  // namespace

BackendChoice backend_from(nb::handle backend) {
  if (!nb::isinstance<nb::str>(backend)) return {Backend::Callable, PyRef::borrow(backend.ptr())};
  const std::optional<Backend> chosen = backend_named(nb::cast<std::string>(backend));
  if (!chosen) throw nb::value_error(fmt::format("there is no backend {}", python::spell(backend.ptr())).c_str());
  if (*chosen == Backend::Native) check_native_settings();
  return {*chosen, {}};
}

void bind_capture(nb::module_& module) {
  make_callable_types(module.ptr());
  watch_symbols();
  step_aside_for_shapes();
  module.attr("_choose_node") = nb::steal(choose_function().release());
  bind_controls(module);
  module.def("_compile_function", &compile_function, nb::arg("callable"), nb::arg("backend"), nb::arg("fullgraph"),
             nb::arg("recompile_limit"), nb::arg("notes_recompiles") = false, nb::arg("wait") = false,
             nb::arg("isolated") = false, nb::arg("dynamic") = nb::none(), nb::arg("spec") = nb::none(),
             nb::arg("freeze") = false, nb::arg("guard_filter") = nb::none());
  module.def("_backends", &backends, "The built-in backends' names, and what they mean.");
  module.def(
      "_entries", [](nb::handle compiled) { return entries_of(region_or_refuse(compiled)); }, nb::arg("compiled"),
      "What a compiled function holds: graphs, guards, reasons.");
  module.def(
      "_recompiles", [](nb::handle compiled) { return recompiles_of(region_or_refuse(compiled)); }, nb::arg("compiled"),
      "Each capture that an earlier one did not make needless, and the guard that failed; the first ones only where "
      "compiled without notes_recompiles.");
  module.def("_regions", &regions, "(entries, recompiles) of every compiled function there is.");
  module.def(
      "_set_progress_listener", [](nb::handle listener) { set_progress_listener(listener.ptr()); },
      nb::arg("listener").none());
  module.def("_set_progress_patience", &set_progress_patience, nb::arg("seconds"),
             "For tests: progress is shown after so many seconds; gives what it was.");
  module.def(
      "_set_event_listener", [](nb::handle listener) { set_event_listener(listener.ptr()); },
      nb::arg("listener").none());
  module.def("_break_reasons", &break_reasons, "By id: what happened, why it matters, what to do.");
  module.def(
      "_passes",
      [] {
        nb::list names;
        for (std::string_view name : pass_order()) names.append(std::string(name));
        return names;
      },
      "The passes over an ATen graph, in the order in which they run.");
  module.def("counters", &counters_now,
             "What compiled functions have done: frames captured, calls served, missed, and run eagerly by reason.");
  module.def("_oracle", &Oracle::enable, nb::arg("on"),
             "For tests: captures notice objects from before them that came in without a source.");
  module.def("_oracle_reports", &Oracle::reports, "What was noticed since then.");
  module.def("_interrupt_after", &interrupt_after, nb::arg("instructions"),
             "For tests: Ctrl-C is pressed after so many captured instructions; 0: not. Gives how many were left.");
  module.def("_break_every", &force_breaks, nb::arg("instructions"),
             "For tests: every piece ends after so many instructions; 0: not.");
  module.def("reset_counters", [] { counters() = Counters(); });
}

}  // namespace firesteel::capture
