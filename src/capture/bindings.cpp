// Python's way to compiled functions: made by _compile_function and _nonstrict_function, asked by counters().
#include "capture/bindings.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "capture/callables.h"
#include "capture/compiled_function.h"
#include "capture/counters.h"
#include "python/constants.h"
#include "python/errors.h"

namespace nb = nanobind;

namespace firesteel::capture {
namespace {

nb::object give(PyRef object) { return nb::steal(object.release()); }

nb::object compile_function(nb::handle callable, const std::string& backend, bool fullgraph, size_t recompile_limit) {
  PyObject* function = PyMethod_Check(callable.ptr()) ? PyMethod_GET_FUNCTION(callable.ptr()) : callable.ptr();
  if (!PyFunction_Check(function)) {
    throw nb::type_error(fmt::format("a Python function is needed, not {}", python::spell(callable.ptr())).c_str());
  }
  const std::optional<Backend> chosen = backend_named(backend);
  if (!chosen) {
    throw nb::value_error(
        fmt::format("there is no backend \"{}\"; those there are: {}", backend, backend_names()).c_str());
  }
  return give(new_compiled_function(callable.ptr(), {*chosen, fullgraph, recompile_limit}));
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

nb::list entries(nb::handle compiled) {
  const Region* region = region_of(compiled.ptr());
  if (!region) throw nb::type_error("a compiled function is needed");
  nb::list result;
  for (const auto& entry : region->segments()) {
    nb::dict shown;
    shown["graph"] = entry->graph_text;
    shown["aten"] = entry->runner ? entry->runner->aten_text() : "";
    shown["guards"] = entry->guards->describe();
    shown["reason"] = entry->broken ? nb::cast(std::string(row(entry->broken->reason).id)) : nb::none();
    shown["message"] = entry->broken ? nb::cast(entry->broken->message()) : nb::none();
    result.append(shown);
  }
  return result;
}

}  // namespace

void bind_capture(nb::module_& module) {
  make_callable_types(module.ptr());
  module.def("_compile_function", &compile_function, nb::arg("callable"), nb::arg("backend"), nb::arg("fullgraph"),
             nb::arg("recompile_limit"));
  module.def(
      "_nonstrict_function", [](nb::handle function) { return give(new_nonstrict_function(function.ptr())); },
      nb::arg("function"));
  module.def("_entries", &entries, nb::arg("compiled"), "What a compiled function holds: graphs, guards, reasons.");
  module.def("counters", &counters_now,
             "What compiled functions have done: frames captured, calls served, missed, and run eagerly by reason.");
  module.def("_break_every", &force_breaks, nb::arg("instructions"),
             "For tests: every piece ends after so many instructions; 0: not.");
  module.def("reset_counters", [] { counters() = Counters(); });
}

}  // namespace firesteel::capture
