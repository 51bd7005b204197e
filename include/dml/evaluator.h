// Measurements of a model: checks of answers, which are rows of `evals`, and evaluators, which see the weights.
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
  std::optional<double> score = {};  // the metric NAME_score is their mean
  std::string critique = {};
  bool decided = true;  // false: the check could not decide; the row does not count
};

/// `checks: [NAME]` or `checks: [{NAME: VALUE, OPTION: …}]`; Row<AnswerCheck>::make gets VALUE as "value" (null without
/// one). What check() throws makes the row undecided, and is told.
class AnswerCheck {
 public:
  virtual ~AnswerCheck() = default;
  /// "" when the check can be made of this row, else what is missing. Before training starts.
  virtual std::string problem_with(const Json& /*row*/) const { return ""; }
  virtual Verdict check(const Answer& answer, const Json& row) = 0;
};

struct Metric {
  std::string name;  // unique within a run; begin it with eval_
  bool greater_is_better = false;
};

/// The model at an evaluation, on every rank.
class ModelView {
 public:
  virtual std::int64_t step() const = 0;  // optimizer steps done
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// Sum over the ranks, the same on all of them. A collective.
  virtual double sum(double mine) = 0;
  /// Every trained parameter: name, shape, values.
  virtual void parameters(const std::function<void(std::string_view name, std::span<const std::int64_t> shape,
                                                   std::span<const float> values)>& visit) = 0;

 protected:
  ~ModelView() = default;
};

class Evaluator {
 public:
  virtual ~Evaluator() = default;
  virtual std::vector<Metric> metrics() const = 0;
  /// The values of metrics(), in their order. Called on all ranks; all of them give the same values.
  virtual std::vector<double> evaluate(ModelView& model) = 0;
};

}  // namespace dml::plugin
