// The snapshot of objects, and what needs no source of its own.
#include "capture/oracle.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "capture/callables.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

bool g_enabled = false;
std::set<std::string> g_reports;
thread_local Oracle* t_oracle = nullptr;

// Known by what led to them: an object's class by the object, a method's code by the method.
bool needs_no_source(PyObject* object) {
  return is_guardable_constant(object) || PyType_Check(object) || PyModule_Check(object) || PyCFunction_Check(object) ||
         PyCode_Check(object) || Py_IS_TYPE(object, &PyMethodDescr_Type) || Py_IS_TYPE(object, &PyWrapperDescr_Type) ||
         Py_IS_TYPE(object, &_PyMethodWrapper_Type) || is_own_callable(object) || is_torch_op(object) ||
         // typing gives the same object for the same annotation, and nobody changes it.
         python::text_of(python::attribute(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__module__").get()) ==
             "typing";
}

// Found in a class, and guarded there.
bool is_of_a_class(const Capture& capture, PyObject* object) {
  return std::any_of(capture.guards.begin(), capture.guards.end(), [&](const Guard& guard) {
    if (!guard.attributes) return false;
    const auto& found = guard.attributes->found;
    return std::any_of(found.begin(), found.end(), [&](const auto& entry) { return entry.second.get() == object; });
  });
}

}  // namespace

void Oracle::enable(bool on) {
  g_enabled = on;
  g_reports.clear();
}

bool Oracle::enabled() { return g_enabled; }

std::vector<std::string> Oracle::reports() { return {g_reports.begin(), g_reports.end()}; }

Oracle::Oracle() : outer_(std::exchange(t_oracle, nullptr)) {
  if (!g_enabled) return;
  PyRef collector = python::checked(PyImport_ImportModule("gc"));
  objects_ = python::checked(PyObject_CallMethod(collector.get(), "get_objects", nullptr));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects_.get()); ++i) old_.insert(PyList_GET_ITEM(objects_.get(), i));
  // What is being handled around the call is put back as it was.
  old_.erase(PyThreadState_Get()->exc_info->exc_value);
  t_oracle = this;
}

Oracle::~Oracle() { t_oracle = outer_; }

void Oracle::allow_constants(PyObject* constant) {
  old_.erase(constant);
  if (!PyTuple_Check(constant)) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constant); ++i) allow_constants(PyTuple_GET_ITEM(constant, i));
}

void Oracle::allow(PyObject* object) {
  if (t_oracle) t_oracle->old_.erase(object);
}

void Oracle::look(const Capture& capture, PyCodeObject* code, int line, const std::vector<PyRef>& stack) {
  if (!t_oracle || capture.concrete || capture.suspended) return;
  t_oracle->allow_constants(code->co_consts);
  for (const PyRef& held : stack) {
    PyObject* value = held.get();
    if (!value || !t_oracle->is_old(value) || capture.source_of(value) || needs_no_source(value)) continue;
    if (is_of_a_class(capture, value) || (python::is_tensor(value) && capture.is_stand_in(value))) continue;
    g_reports.insert(fmt::format("a {} in {} ({}:{})", Py_TYPE(value)->tp_name, python::text_of(code->co_qualname),
                                 python::text_of(code->co_filename), line));
  }
}

}  // namespace firesteel::capture
