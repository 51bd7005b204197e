#include "train/plateau.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/json.h"

namespace dml {
namespace {

constexpr const char* kSource = "lr_scheduler_kwargs";

double in_range(const Json& kwargs, const char* key, double fallback, double below) {
  const double value = json_number(kwargs, key, fallback, kSource);
  if (!(value >= 0 && value < below))
    throw UserError("{}: {} must be at least 0 and below {:g}, is {:g}", kSource, key, below, value);
  return value;
}

std::int64_t count(const Json& kwargs, const char* key, std::int64_t fallback) {
  const std::int64_t value = json_integer(kwargs, key, fallback, kSource);
  if (value < 0) throw UserError("{}: {} must not be negative, is {}", kSource, key, value);
  return value;
}

bool is_second(const Json& kwargs, const char* key, const char* first, const char* second) {
  const std::string value = json_string(kwargs, key, first, kSource);
  if (value != first && value != second)
    throw UserError("{}: {} must be {} or {}, is '{}'", kSource, key, first, second, value);
  return value == second;
}

}  // namespace

PlateauSettings plateau_settings(const Json& kwargs, Metric metric, double peak) {
  PlateauSettings s{std::move(metric), peak};
  s.factor = in_range(kwargs, "factor", s.factor, 1);
  s.threshold = in_range(kwargs, "threshold", s.threshold, 1e300);
  s.min_lr = in_range(kwargs, "min_lr", s.min_lr, 1e300);
  s.eps = in_range(kwargs, "eps", s.eps, 1e300);
  s.patience = count(kwargs, "patience", s.patience);
  s.cooldown = count(kwargs, "cooldown", s.cooldown);
  s.relative = !is_second(kwargs, "threshold_mode", "rel", "abs");
  if (kwargs.contains("mode")) s.metric.greater_is_better = is_second(kwargs, "mode", "min", "max");
  return s;
}

bool Plateau::better(double value) const {
  if (std::isnan(value)) return false;
  if (!best_) return true;
  const double sign = settings_.metric.greater_is_better ? 1 : -1,
               than =
                   settings_.relative ? *best_ * (1 + sign * settings_.threshold) : *best_ + sign * settings_.threshold;
  return settings_.metric.greater_is_better ? value > than : value < than;
}

Action Plateau::on_eval(const EvalMetrics& metrics, const std::vector<SampleMetrics>& /*samples*/) {
  const std::optional<double> value = metrics.value(settings_.metric.name);
  if (!value || metrics.step == 0) return {};
  if (better(*value)) best_ = value, bad_ = 0;
  else ++bad_;
  if (cooling_ > 0) --cooling_, bad_ = 0;
  if (bad_ <= settings_.patience) return {};
  const double rate = settings_.peak * scale_, lower = std::max(rate * settings_.factor, settings_.min_lr);
  if (rate - lower > settings_.eps) scale_ = lower / settings_.peak;
  cooling_ = settings_.cooldown;
  bad_ = 0;
  return {};
}

void Plateau::write_state(TrainState& state) const {
  state.extra["plateau"] = {
      {"best", best_ ? Json(*best_) : Json(nullptr)}, {"scale", scale_}, {"bad", bad_}, {"cooling", cooling_}};
}

void Plateau::read_state(const TrainState& state, const std::string& source) {
  const auto found = state.extra.find("plateau");
  if (found == state.extra.end() || !found->is_object()) return;
  best_.reset();
  if (found->contains("best") && (*found)["best"].is_number()) best_ = (*found)["best"].get<double>();
  scale_ = json_number(*found, "scale", 1, source);
  bad_ = json_integer(*found, "bad", 0, source);
  cooling_ = json_integer(*found, "cooling", 0, source);
}

}  // namespace dml
