#include "generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/random.h"
#include "kernels/range_ops.h"

namespace dml {
namespace {

std::size_t at(Token t) { return static_cast<std::size_t>(t); }

// The largest logit, and log Σ exp(logits), the normalizer of log-probabilities.
struct Stats {
  float top;
  double log_total;
};
Stats stats_of(std::span<const float> logits) {
  auto [top, sum] = kernels::row_stats(logits);
  const double total = top + std::log(sum);
  if (!std::isfinite(total)) throw Error(ExitCode::diverged, "the model's logits are NaN");
  return {top, total};
}

// Candidates in descending order, sorted lazily: sorting the whole vocabulary for every token would dominate the time.
class Ranking {
 public:
  using Entry = std::pair<float, Token>;
  // A logit's distance from the best one, over the temperature.
  void fill(std::span<const float> logits, double temperature) {
    entries_.clear();
    sorted_ = 0;
    const double top = *std::max_element(logits.begin(), logits.end());
    for (std::size_t i = 0; i < logits.size(); ++i)
      if (std::isfinite(logits[i]))
        entries_.push_back({static_cast<float>((logits[i] - top) / temperature), static_cast<Token>(i)});
  }
  std::size_t size() const { return entries_.size(); }
  // Keeps the best ones only.
  void keep(std::size_t count) {
    if (count >= entries_.size()) return;
    sort_to(count);
    entries_.resize(count);
  }
  const Entry& operator[](std::size_t rank) {
    if (rank >= sorted_) sort_to(std::min(entries_.size(), std::max<std::size_t>(64, 4 * (rank + 1))));
    return entries_[rank];
  }
  double mass(std::size_t rank) { return std::exp(static_cast<double>((*this)[rank].first)); }
  double total() const {
    double sum = 0;
    for (const Entry& e : entries_) sum += std::exp(static_cast<double>(e.first));
    return sum;
  }

 private:
  // Equal ones by id, so that the order is fixed.
  static bool better(const Entry& a, const Entry& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  }
  void sort_to(std::size_t count) {
    auto from = entries_.begin() + static_cast<std::ptrdiff_t>(sorted_),
         to = entries_.begin() + static_cast<std::ptrdiff_t>(count);
    if (to != entries_.end()) std::nth_element(from, to, entries_.end(), better);
    std::sort(from, to, better);
    sorted_ = count;
  }
  std::vector<Entry> entries_;
  std::size_t sorted_ = 0;
};

// Scratch memory of a sampling thread.
struct Scratch {
  std::vector<std::int32_t> counts;
  std::vector<float> own;  // the unmodified logits
  Ranking ranking;
};
Scratch& scratch() {
  thread_local Scratch s;
  return s;
}

}  // namespace

void Sampler::penalize(std::span<float> logits, std::span<const Token> history, std::uint64_t step) const {
  const auto& o = options_;
  for (auto [token, bias] : o.bias) logits[at(token)] += bias;
  if (!o.penalizes()) return;
  auto& counts = scratch().counts;
  if (counts.size() < logits.size()) counts.resize(logits.size(), 0);
  if (o.repetition_penalty != 1) {
    for (Token t : history) {
      if (counts[at(t)]++ > 0) continue;
      float& x = logits[at(t)];
      x = static_cast<float>(x > 0 ? x / o.repetition_penalty : x * o.repetition_penalty);
    }
    for (Token t : history) counts[at(t)] = 0;
  }
  const auto counted = history.last(std::min<std::size_t>(step, history.size()));
  for (Token t : counted) ++counts[at(t)];
  for (Token t : counted) {
    if (counts[at(t)] == 0) continue;
    logits[at(t)] -= static_cast<float>(o.presence_penalty + o.frequency_penalty * counts[at(t)]);
    counts[at(t)] = 0;
  }
}

Token Sampler::draw(std::span<const float> logits, double uniform) const {
  Ranking& ranking = scratch().ranking;
  ranking.fill(logits, options_.temperature);  // the best candidate is at 0 for any temperature
  if (options_.top_k > 0) ranking.keep(static_cast<std::size_t>(options_.top_k));
  std::size_t keep = ranking.size();
  double total = ranking.total();
  if (options_.top_p < 1) {
    double reached = 0;
    std::size_t i = 0;
    while (i < keep && reached < options_.top_p * total) reached += ranking.mass(i++);
    keep = std::max<std::size_t>(i, 1);
    total = i == 0 ? 1 : reached;
  }
  if (options_.min_p > 0) {
    double reached = 1;
    std::size_t i = 1;
    while (i < keep && ranking.mass(i) >= options_.min_p) reached += ranking.mass(i++);
    keep = i;
    total = reached;
  }
  double left = uniform * total;
  std::size_t i = 0;
  while (i + 1 < keep && (left -= ranking.mass(i)) >= 0) ++i;
  return ranking[i].second;
}

Sampler::Choice Sampler::sample(std::span<float> logits, std::span<const Token> history, std::uint64_t sequence,
                                std::uint64_t step, std::span<const std::uint64_t> allowed) const {
  DML_CHECK(std::ssize(logits) == vocab_);
  const Stats stats = stats_of(logits);
  const bool changes = options_.changes_logits() || !allowed.empty();
  std::span<const float> own = logits;
  if (changes) {
    scratch().own.assign(logits.begin(), logits.end());
    own = scratch().own;
    penalize(logits, history, step);
  }
  if (!allowed.empty())
    for (std::size_t i = 0; i < logits.size(); ++i)
      if (i / 64 >= allowed.size() || !(allowed[i / 64] >> i % 64 & 1))
        logits[i] = -std::numeric_limits<float>::infinity();
  const auto best = changes ? std::ranges::max_element(logits) : std::ranges::find(logits, stats.top);
  if (*best == -std::numeric_limits<float>::infinity())
    throw UserError("no token is left to choose from: biases rule out all that may come next");
  Token token = options_.greedy || options_.temperature <= 0
                    ? static_cast<Token>(best - logits.begin())
                    : draw(logits, Random(options_.seed, Purpose::sample, sequence).uniform_double(step));
  return reported(own, stats.log_total, token, options_.top_logprobs);
}

Sampler::Choice Sampler::report(std::span<const float> logits, Token token, int top) {
  return reported(logits, stats_of(logits).log_total, token, top);
}

Sampler::Choice Sampler::reported(std::span<const float> logits, double log_total, Token token, int top) {
  auto logprob = [&](Token t) { return static_cast<float>(logits[at(t)] - log_total); };
  Choice choice{token, logprob(token)};
  if (top > 0) {
    Ranking ranking;
    ranking.fill(logits, 1);
    ranking.keep(static_cast<std::size_t>(top));
    for (std::size_t i = 0; i < ranking.size(); ++i)
      choice.top.push_back({ranking[i].second, logprob(ranking[i].second)});
  }
  return choice;
}

}  // namespace dml
