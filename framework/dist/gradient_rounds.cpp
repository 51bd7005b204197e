#include "dist/gradient_rounds.h"

#include <algorithm>

namespace dml {

std::vector<GradientRound> plan_rounds(MicroBatches range, std::int64_t total, int ranks) {
  std::vector<GradientRound> rounds;
  TreeStack stack(total);
  const std::int64_t end = range.first + range.count;
  for (std::int64_t first = range.first; first < end; first += ranks) {
    GradientRound round;
    round.held = stack.depth();
    round.leaves = static_cast<std::size_t>(std::min<std::int64_t>(ranks, end - first));
    for (std::size_t node = 0; node < round.held + round.leaves; ++node) {
      round.kept.push_back(node);
      if (node < round.held) continue;
      for (int n = stack.push({0, first + static_cast<std::int64_t>(node - round.held)}); n > 0; --n) {
        auto from = static_cast<int>(round.kept.back());
        round.kept.pop_back();
        round.additions.emplace_back(static_cast<int>(round.kept.back()), from);
      }
    }
    rounds.push_back(std::move(round));
  }
  return rounds;
}

std::size_t stack_depth(const std::vector<GradientRound>& rounds) {
  std::size_t depth = 1;
  for (const GradientRound& round : rounds) depth = std::max(depth, round.kept.size());
  return depth;
}

}  // namespace dml
