// From rewards to advantages: how much better a completion is than the others of its prompt (GRPO, Shao et al. 2024),
// with several rewards normalised one by one for GDPO. Formulas as in TRL's GRPOTrainer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dml {

/// The divisor of advantages.
enum class RewardScale { group, batch, none };

struct AdvantageSettings {
  std::int64_t group = 8;            // completions of a prompt; they are neighbours
  std::vector<double> weights = {};  // of the rewards
  RewardScale scale = RewardScale::group;
  bool normalise_each = false;  // each reward within its prompt before they are added up, then their sum over the batch
};

struct Advantages {
  std::vector<double> values;   // of each completion
  std::vector<double> rewards;  // weighted sums
  double reward_std = 0;        // mean of the groups' deviations, or that of the batch
  double zero_std = 0;          // share of the completions whose prompt has equal rewards: they train nothing
};

/// rewards: by reward function, one value per completion. Deviations are of samples (n − 1), with 1e-4 added.
Advantages advantages_of(std::span<const std::vector<double>> rewards, const AdvantageSettings& settings);

/// Mean, and deviation of the sample (0 for a single value).
struct MeanAndDeviation {
  double mean = 0, deviation = 0;
};
MeanAndDeviation mean_and_deviation(std::span<const double> values);

}  // namespace dml
