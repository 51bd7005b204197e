// The learning rate as a pure function of the optimizer step s = 0, 1, …, T − 1.
//
// Warmup over W steps: (s + 1) / W of the peak while s < W; then the schedule at p = (s − W) / (T − W). (Trainers with
// PyTorch's LambdaLR use s / W, so that their first step has the rate 0.) one_cycle has its own warmup.
//
// Jagged restarts (ReLoRA) every N steps multiply any schedule: by (r + 1) / U in the U steps after each restart, r = s
// mod N, and by (N − r) / A in the A steps before the next.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/registry.h"

namespace dml {

struct ScheduleSettings {
  std::string name = "cosine";
  double peak = 0;
  std::int64_t steps = 0;                         // T
  std::optional<std::int64_t> warmup_steps = {};  // neither: 3 % of the steps, at most 100
  std::optional<double> warmup_ratio = {};
  // These have an effect where ScheduleShape::keys has their key of the recipe.
  bool quadratic_warmup = false;                 // the square of the linear warmup, then a cosine down to zero
  std::optional<double> min_lr_ratio = {};       // minimum learning rate ÷ peak
  std::optional<double> constant_lr_ratio = {};  // cosine over this share of the steps, then the minimum
  Json kwargs = Json::object();                  // lr_scheduler_kwargs
  std::int64_t restart_steps = 0, restart_warmup = 0, restart_anneal = 0;  // N (0: no restarts), U, A
};

/// W: as set, or 3 % of the steps, at most 100 (ScheduleShape::warmup_on_request: 0).
std::int64_t warmup_length(const ScheduleSettings& settings);

/// The position of a step in the run.
struct SchedulePosition {
  double step, warmup, steps;  // s, W, T
  double p() const { return steps > warmup ? (step - warmup) / (steps - warmup) : 1; }
};

/// A keyword argument of a schedule.
struct ScheduleArgument {
  std::string name;
  double most = std::numeric_limits<double>::max();
  bool above_zero = false;     // else at least 0
  bool checked_later = false;  // by what reads it; else it is a number of this range
};

/// A schedule: the factor of the peak after the warmup, and its keyword arguments.
struct ScheduleShape {
  std::function<double(const ScheduleSettings& settings, const SchedulePosition& place)> factor;
  std::vector<ScheduleArgument> kwargs = {};
  std::vector<std::string> keys = {};  // the schedule-specific recipe keys that it reads
  bool own_warmup = false;
  bool warmup_from_floor = false;  // the warmup begins at the minimum learning rate, not at zero
  bool warmup_on_request = false;  // none unless the recipe asks for it
};

/// Such keys, as Axolotl's cosine reads them.
inline constexpr const char *kQuadraticWarmup = "lr_quadratic_warmup", *kMinLrRatio = "cosine_min_lr_ratio",
                            *kConstantLrRatio = "cosine_constant_lr_ratio";

/// cosine, linear, constant …, with the names of Axolotl and transformers.
Registry<ScheduleShape>& schedules();

class LearningRate {
 public:
  /// Throws UserError for an unknown schedule or argument.
  explicit LearningRate(ScheduleSettings settings);
  double at(std::int64_t step) const { return smooth(step) * restart_factor(step); }
  std::int64_t warmup() const { return warmup_; }

 private:
  double smooth(std::int64_t step) const;
  double restart_factor(std::int64_t step) const;

  ScheduleSettings settings_;
  ScheduleShape shape_;
  std::int64_t warmup_;
};

}  // namespace dml
