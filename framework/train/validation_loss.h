// The loss over the validation split, eval_loss, and where it is the mean cross-entropy of tokens its perplexity,
// eval_ppl. If the split has examples of several datasets, also eval_NAME_loss of each; and the objective's evaluated
// terms, prefixed with "eval_".
#pragma once

#include <vector>

#include "data/loader.h"
#include "train/evaluator.h"

namespace dml {

class ValidationLoss : public Evaluator {
 public:
  struct Datasets {
    std::vector<std::string> names;     // names of the datasets
    std::vector<std::int32_t> numbers;  // for each example of the split, an index into `names`
  };
  struct Options {
    bool on_start = false;  // evaluate before training as well
    bool of_tokens = true;  // the loss is the mean cross-entropy of tokens
    LoaderOptions loading = {};
    std::span<const Metric> terms = {};  // the objective's evaluated terms
  };
  /// With fewer than two datasets there is only one loss. Examples and schedule must outlive this object.
  ValidationLoss(const Examples& examples, const Schedule& schedule, Datasets datasets, const Options& options);

  std::vector<Metric> metrics() const override;
  /// What it measures of a split with examples of several `datasets` (none: of one).
  static std::vector<Metric> metrics_of(bool of_tokens, std::span<const std::string> datasets,
                                        std::span<const Metric> terms);
  bool due(const EvaluationMoment& moment) const override { return moment.step == 0 ? on_start_ : moment.scheduled; }
  void evaluate(const EvaluationContext& context, EvaluationResult& result) override;
  Memory memory(CausalLm& model, Objective& objective, int rank) override;

 private:
  Examples examples_;
  const Schedule& schedule_;
  Loader loader_;
  Datasets datasets_;
  bool on_start_, of_tokens_;
  std::vector<Metric> terms_;
};

}  // namespace dml
