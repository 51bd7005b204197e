// Rewards: checks of answers as numbers. A check is worth its score, or 1 where it passes and 0 where it does not.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "evaluate/checks.h"

namespace dml {

class Rewards {
 public:
  /// Options of a request beside those of the check: `weight` (1 unless given) and `name`. UserError with a line for
  /// everything that is wrong: unknown checks and options, values, names that occur twice.
  explicit Rewards(const std::vector<CheckRequest>& requests);

  const std::vector<std::string>& names() const { return names_; }
  const std::vector<double>& weights() const { return weights_; }
  /// One line for every row that a check cannot be made of, at most 20.
  std::vector<std::string> problems_with(std::span<const EvalRow> rows) const;
  /// By reward: the value of each answer, given with its row. UserError naming the row where a program failed or a
  /// value is not a number.
  std::vector<std::vector<double>> of(std::span<const EvalAnswer> answers, std::span<const EvalRow* const> rows);

 private:
  double value(std::size_t reward, const EvalAnswer& answer, const EvalRow& row);

  std::vector<std::unique_ptr<AnswerCheck>> checks_;
  std::vector<std::string> names_;
  std::vector<double> weights_;
};

}  // namespace dml
