// Linear problems by isl: its emptiness test is exact over whole numbers.
#include "shapes/linear.h"

#include <memory>

#include <isl/constraint.h>
#include <isl/ctx.h>
#include <isl/mat.h>
#include <isl/options.h>
#include <isl/set.h>
#include <isl/space.h>
#include <isl/val.h>

namespace firesteel {
namespace {

// isl's count of its own inner steps for one problem, all choices together: some milliseconds at the worst.
constexpr unsigned long kMostOperations = 20000;
constexpr size_t kMostCases = 32;

struct FreeContext {
  void operator()(isl_ctx* context) const { isl_ctx_free(context); }
};
using Context = std::unique_ptr<isl_ctx, FreeContext>;

isl_mat* matrix(isl_ctx* context, const std::vector<const LinearRow*>& rows, int variables) {
  isl_mat* result = isl_mat_alloc(context, rows.size(), variables + 1);
  for (size_t row = 0; row < rows.size(); row++) {
    for (int column = 0; column <= variables; column++) result = isl_mat_set_element_si(result, row, column, 0);
    for (auto [variable, factor] : rows[row]->terms) {
      result = isl_mat_set_element_val(result, row, variable, isl_val_int_from_si(context, factor));
    }
    result = isl_mat_set_element_val(result, row, variables, isl_val_int_from_si(context, rows[row]->constant));
  }
  return result;
}

bool is_empty(isl_ctx* context, const std::vector<const LinearRow*>& rows, int variables) {
  std::vector<const LinearRow*> zero;
  std::vector<const LinearRow*> at_least_zero;
  for (const LinearRow* row : rows) (row->is_zero ? zero : at_least_zero).push_back(row);
  isl_basic_set* set = isl_basic_set_from_constraint_matrices(
      isl_space_set_alloc(context, 0, variables), matrix(context, zero, variables),
      matrix(context, at_least_zero, variables), isl_dim_set, isl_dim_div, isl_dim_param, isl_dim_cst);
  // An error (the budget's end is one) gives a null set or isl_bool_error: nothing is proved.
  bool empty = isl_basic_set_is_empty(set) == isl_bool_true;
  isl_basic_set_free(set);
  return empty;
}

// Every way of choosing one alternative of each choice.
bool all_empty(isl_ctx* context, const LinearProblem& problem, std::vector<const LinearRow*>& rows, size_t choice) {
  if (choice == problem.choices.size()) return is_empty(context, rows, problem.variables);
  for (const LinearProblem::Rows& alternative : problem.choices[choice]) {
    size_t before = rows.size();
    for (const LinearRow& row : alternative) rows.push_back(&row);
    bool empty = all_empty(context, problem, rows, choice + 1);
    rows.resize(before);
    if (!empty) return false;
  }
  return true;
}

}  // namespace

bool has_no_point(const LinearProblem& problem) {
  size_t cases = 1;
  for (const auto& choice : problem.choices) {
    cases *= choice.size();
    if (cases > kMostCases) return false;
  }
  Context context(isl_ctx_alloc());
  if (context == nullptr) return false;
  isl_options_set_on_error(context.get(), ISL_ON_ERROR_CONTINUE);
  isl_ctx_set_max_operations(context.get(), kMostOperations);
  std::vector<const LinearRow*> rows;
  for (const LinearRow& row : problem.rows) rows.push_back(&row);
  return all_empty(context.get(), problem, rows, 0);
}

bool has_linear_solver() { return true; }

}  // namespace firesteel
