// The limits of the sampling settings: the same on the command line, in recipes, in generation_config.json and in
// requests. OpenAI's API has narrower limits for some of its fields.
#pragma once

#include <cstdint>

namespace dml {

struct SamplingLimit {
  double low, high;  // both are allowed

  constexpr bool contains(double x) const { return x >= low && x <= high; }
};

struct SamplingLimits {
  static constexpr std::int64_t kMaxTopK = std::int64_t{1} << 30, kMaxNewTokens = std::int64_t{1} << 30;
  static constexpr SamplingLimit kTemperature{0, 100}, kTopK{0, kMaxTopK}, kTopP{0, 1}, kMinP{0, 1};
  static constexpr SamplingLimit kRepetitionPenalty{1e-3, 100};  // logits are divided by it
  static constexpr SamplingLimit kPenalty{-100, 100};            // presence and frequency
  static constexpr SamplingLimit kNewTokens{1, kMaxNewTokens};
};

}  // namespace dml
