// Advantages from rewards: how much better a completion is than the others of its prompt (GRPO, Shao et al. 2024); for
// GDPO each reward is normalized separately first. Formulas as in TRL's GRPOTrainer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dml {

/// The scope of the standard deviation that advantages are divided by.
enum class RewardScale { group, batch, none };

struct AdvantageSettings {
  std::int64_t group = 8;            // completions per prompt; they are consecutive
  std::vector<double> weights = {};  // one per reward
  RewardScale scale = RewardScale::group;
  bool normalize_each =
      false;  // normalize each reward within its group, add them up, then normalize the sum over the batch
};

struct Advantages {
  std::vector<double> values;   // one per completion
  std::vector<double> rewards;  // weighted sums
  double reward_std = 0;        // mean of the groups' standard deviations, or that of the batch
  double zero_std = 0;          // fraction of the completions in groups with equal rewards; their advantages are 0
};

/// rewards[f][c]: reward function f of completion c. Standard deviations are of samples (n − 1), with 1e-4 added.
Advantages advantages_of(std::span<const std::vector<double>> rewards, const AdvantageSettings& settings);

/// Mean and sample standard deviation (0 for a single value).
struct MeanAndDeviation {
  double mean = 0, deviation = 0;
};
MeanAndDeviation mean_and_deviation(std::span<const double> values);

}  // namespace dml
