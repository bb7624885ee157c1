// What eager gives and an ATen graph does not know: results that are inference tensors, or objects of class Parameter.
#pragma once

#include "capture/runner.h"

namespace firesteel::capture {

struct ResultKind {
  bool is_inference = false, is_parameter = false;
  bool keeps_history = false;  // a backend that traces may give it without
  bool is_plain() const { return !is_inference && !is_parameter && !keeps_history; }
};
// Of the class Parameter itself.
bool is_parameter(PyObject* tensor);
// Of a stand-in that the captured code has made.
ResultKind kind_of_result(PyObject* stand_in);

// The runner itself where all results are plain tensors.
std::unique_ptr<Runner> with_result_kinds(std::unique_ptr<Runner> runner, std::vector<ResultKind> kinds);

}  // namespace firesteel::capture
