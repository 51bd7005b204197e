#include "train/best_model.h"

#include "core/json.h"
#include "core/log.h"

namespace dml {

Action BestModel::ending() const {
  return {.finish = settings_.patience && without_improvement_ >= *settings_.patience};
}

Action BestModel::on_eval(const EvalMetrics& metrics, const std::vector<SampleMetrics>& /*samples*/) {
  const std::optional<double> value = metrics.value(settings_.metric.name);
  if (!value || metrics.step == 0) return {};
  const bool better =
      *value == *value && (!best_ || (settings_.metric.greater_is_better ? *value > *best_ : *value < *best_));
  if (better) best_ = value, best_step_ = metrics.step, without_improvement_ = 0;
  else ++without_improvement_;
  Action action = ending();
  action.save = better && settings_.save;
  return action;
}

void BestModel::on_end(const RunEnd& end) {
  if (end.reason == RunEnd::Reason::finished_early && ending().finish)
    log_info("Stopped early at step {}: {} has not improved for {} evaluations", end.step,
             settings_.metric.name == kEvalLoss ? "the validation loss" : settings_.metric.name, *settings_.patience);
}

void BestModel::write_state(TrainState& state) const {
  state.best_metric = best_;
  state.best_step = best_step_;
  state.extra["without_improvement"] = without_improvement_;
}

void BestModel::read_state(const TrainState& state, const std::string& source) {
  best_ = state.best_metric;
  best_step_ = state.best_step;
  without_improvement_ = json_integer(state.extra, "without_improvement", 0, source);
}

}  // namespace dml
