#include "generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/random.h"
#include "kernels/runs.h"

namespace dml {
namespace {

std::size_t at(Token t) { return static_cast<std::size_t>(t); }

// log Σ exp(logits): what a logit lacks to be a log probability.
double log_total(std::span<const float> logits) {
  auto [top, sum] = kernels::row_stats(logits);
  double total = top + std::log(sum);
  if (!std::isfinite(total)) throw Error(ExitCode::diverged, "the model's outputs are not numbers any more");
  return total;
}

}  // namespace

Sampler::Sampler(const SamplingOptions& options, std::int64_t vocab)
    : options_(options), counts_(static_cast<std::size_t>(vocab), 0) {}

void Sampler::penalise(std::span<float> logits, std::span<const Token> history) {
  const auto& o = options_;
  if (o.repetition_penalty == 1 && o.presence_penalty == 0 && o.frequency_penalty == 0) return;
  for (Token t : history) ++counts_[at(t)];
  for (Token t : history) {
    auto& count = counts_[at(t)];
    if (count == 0) continue;
    float& x = logits[at(t)];
    x = static_cast<float>(x > 0 ? x / o.repetition_penalty : x * o.repetition_penalty);
    x -= static_cast<float>(o.presence_penalty + o.frequency_penalty * count);
    count = 0;
  }
}

Token Sampler::draw(std::span<const float> logits, double uniform) {
  candidates_.clear();
  const double top = *std::max_element(logits.begin(), logits.end());  // the best becomes 0, whatever the temperature
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (std::isfinite(logits[i])) candidates_.push_back({static_cast<float>((logits[i] - top) / options_.temperature), static_cast<Token>(i)});
  // Best first; equal ones by id, so that the order is fixed.
  auto better = [](auto& a, auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; };
  std::size_t keep = candidates_.size();
  if (options_.top_k > 0) keep = std::min(keep, static_cast<std::size_t>(options_.top_k));
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(keep), candidates_.end(),
                    better);

  double total = 0;
  auto mass = [&](std::size_t i) { return std::exp(static_cast<double>(candidates_[i].first)); };
  for (std::size_t i = 0; i < keep; ++i) total += mass(i);
  if (options_.top_p < 1) {
    double reached = 0;
    std::size_t i = 0;
    while (i < keep && reached < options_.top_p * total) reached += mass(i++);
    keep = std::max<std::size_t>(i, 1);
    total = i == 0 ? 1 : reached;
  }
  if (options_.min_p > 0) {
    double reached = 1;
    std::size_t i = 1;
    while (i < keep && mass(i) >= options_.min_p) reached += mass(i++);
    keep = i;
    total = reached;
  }
  double left = uniform * total;
  std::size_t i = 0;
  while (i + 1 < keep && (left -= mass(i)) >= 0) ++i;
  return candidates_[i].second;
}

Sampler::Choice Sampler::sample(std::span<float> logits, std::span<const Token> history, std::uint64_t sequence,
                                std::uint64_t step, std::span<const std::uint64_t> allowed) {
  const double total = log_total(logits);
  own_.assign(logits.begin(), logits.end());
  penalise(logits, history);
  if (!allowed.empty())
    for (std::size_t i = 0; i < logits.size(); ++i)
      if (i / 64 >= allowed.size() || !(allowed[i / 64] >> i % 64 & 1)) logits[i] = -std::numeric_limits<float>::infinity();
  Token token = options_.greedy || options_.temperature <= 0
                    ? static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin())
                    : draw(logits, Random(options_.seed, Purpose::sample, sequence).uniform_double(step));
  return {token, static_cast<float>(own_[at(token)] - total)};
}

}  // namespace dml
