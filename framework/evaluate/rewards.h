// Rewards: checks of answers as numbers. The value of a check is its score or, without one, 1 if it passes and 0 if
// not.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "evaluate/checks.h"

namespace dml {

/// A reward that is a model; the caller handles it (assembly/reward_sources.h).
inline constexpr const char* kRewardModel = "model";

/// The option `weight` of the reward `name`, 1 if it is not given. UserError when it is not a number up to 1e6.
double reward_weight(const CheckRequest& request, const std::string& name);

class Rewards {
 public:
  /// Requests have the options `weight` (default 1) and `name` in addition to those of the check. UserError with one
  /// line per problem: unknown checks and options, values, duplicate names.
  explicit Rewards(const std::vector<CheckRequest>& requests);

  const std::vector<std::string>& names() const { return names_; }
  const std::vector<double>& weights() const { return weights_; }
  /// One line per row to which a check cannot be applied, at most kMaxRefused.
  static constexpr std::size_t kMaxRefused = 20;
  std::vector<std::string> problems_with(std::span<const EvalRow> rows) const;
  /// Values by reward and answer; each answer is given with its row. UserError naming the row when a program failed or
  /// a value is not a number.
  std::vector<std::vector<double>> of(std::span<const EvalAnswer> answers, std::span<const EvalRow* const> rows);

 private:
  double value(std::size_t reward, const EvalAnswer& answer, const EvalRow& row);

  std::vector<std::unique_ptr<AnswerCheck>> checks_;
  std::vector<std::string> names_;
  std::vector<double> weights_;
};

}  // namespace dml
