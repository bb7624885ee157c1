// A question about sizes as linear constraints: every product of atoms is a variable.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shapes/linear.h"
#include "shapes/reasoner.h"

namespace firesteel {

class Linearizer {
 public:
  Linearizer(const FactBase& facts, Reasoner& reasoner) : facts_(facts), reasoner_(reasoner) {}

  // The relation together with what is known of the symbols in it; nothing where it has no linear form.
  std::optional<LinearProblem> problem(const Relation& relation);

 private:
  static constexpr int kMostVariables = 48;
  static constexpr size_t kMostRows = 160;
  static constexpr size_t kMostChoices = 4;

  bool is_full() const { return problem_.variables >= kMostVariables || problem_.rows.size() >= kMostRows; }
  std::optional<LinearProblem::Rows> rows(const Relation& comparison);  // of Eq, Lt, Le
  std::optional<std::vector<LinearProblem::Rows>> alternatives(const Relation& relation);
  bool take(const Relation& relation);
  bool take_choice(std::vector<LinearProblem::Rows> alternatives);
  LinearRow row(const Polynomial& polynomial, bool is_zero = false);
  void at_least_zero(const Polynomial& polynomial);
  int variable(const std::vector<Atom>& atoms);
  void define(const Atom& atom);
  void define_division(const Atom& atom);
  void define_extreme(const Atom& atom);
  void define_product(const std::vector<Atom>& atoms);
  void add_facts();
  bool knows_one(const std::vector<Atom>& atoms) const;
  bool knows_all(const std::vector<Atom>& atoms) const;

  const FactBase& facts_;
  Reasoner& reasoner_;
  LinearProblem problem_;
  std::map<std::string, int> variables_;      // by the product's key
  std::vector<std::vector<Atom>> undefined_;  // products whose meaning is not written down yet
  std::map<std::string, Atom> atoms_;
};

}  // namespace firesteel
