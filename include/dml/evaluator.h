// Evaluations: checks of generated answers, named in `evals`, and evaluators, which see the weights.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dml/registry.h"

namespace dml::plugin {

struct Answer {
  std::string prompt, reference, output;
};

struct Verdict {
  bool pass = false;
  std::optional<double> score = {};  // the metric NAME_score is the mean of all scores
  std::string critique = {};
  bool decided = true;  // false: the check failed to judge; the row is not counted
};

/// In a recipe: `checks: [NAME]` or `checks: [{NAME: VALUE, OPTION: …}]`. Row<AnswerCheck>::make gets VALUE as the
/// argument "value" (null without one). If check() throws or gives a score that is not finite, the row is undecided and
/// the error is logged.
class AnswerCheck {
 public:
  virtual ~AnswerCheck() = default;
  /// What the row lacks for this check; "" if nothing. Called before training starts.
  virtual std::string problem_with(const Json& /*row*/) const { return ""; }
  virtual Verdict check(const Answer& answer, const Json& row) = 0;
};

struct Metric {
  std::string name;  // unique within a run; should begin with eval_
  bool greater_is_better = false;
};

/// The model during an evaluation, on every rank.
class ModelView {
 public:
  virtual std::int64_t step() const = 0;  // optimizer steps done
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// The sum of `mine` over the ranks, with the same bits on all of them. A collective call.
  virtual double sum(double mine) = 0;
  /// Calls visit for every trained parameter.
  virtual void parameters(const std::function<void(std::string_view name, std::span<const std::int64_t> shape,
                                                   std::span<const float> values)>& visit) = 0;

 protected:
  ~ModelView() = default;
};

class Evaluator {
 public:
  virtual ~Evaluator() = default;
  virtual std::vector<Metric> metrics() const = 0;
  /// The values of metrics(), in their order. Called on all ranks, which must return the same values.
  virtual std::vector<double> evaluate(ModelView& model) = 0;
};

}  // namespace dml::plugin
