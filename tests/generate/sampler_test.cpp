// Which tokens can come, how often, and at what price: filters are checked against sets worked out by hand, over many
// seeds.
#include "generate/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "core/error.h"

namespace dml {
namespace {

using Logits = std::vector<float>;

Sampler::Choice once(const SamplingOptions& options, Logits logits, const std::vector<Token>& history = {},
                     std::uint64_t step = 0) {
  Sampler sampler(options, static_cast<std::int64_t>(logits.size()));
  return sampler.sample(logits, history, 0, step);
}

Logits logs(std::vector<double> probabilities) {
  Logits out;
  for (double p : probabilities) out.push_back(static_cast<float>(std::log(p) + 1.5));  // a shift changes nothing
  return out;
}

std::map<Token, int> counts(const SamplingOptions& options, const Logits& logits, int draws) {
  std::map<Token, int> n;
  Sampler sampler(options, static_cast<std::int64_t>(logits.size()));
  for (int i = 0; i < draws; ++i) {
    Logits own = logits;
    ++n[sampler.sample(own, {}, 0, static_cast<std::uint64_t>(i)).token];
  }
  return n;
}

// The tokens seen are exactly `want`, each as often as its share among them.
void expect_exactly(const SamplingOptions& base, const std::vector<double>& probabilities,
                    const std::set<Token>& want) {
  constexpr int kDraws = 4000;
  double total = 0;
  for (Token t : want) total += probabilities[static_cast<std::size_t>(t)];
  for (std::uint64_t seed : {0, 1, 2}) {
    SamplingOptions options = base;
    options.seed = seed;
    auto n = counts(options, logs(probabilities), kDraws);
    std::set<Token> seen;
    for (auto& [token, count] : n) {
      seen.insert(token);
      double share = probabilities[static_cast<std::size_t>(token)] / total;
      EXPECT_NEAR(static_cast<double>(count) / kDraws, share, 5 * std::sqrt(share * (1 - share) / kDraws) + 1e-9)
          << token;
    }
    EXPECT_EQ(seen, want);
  }
}

const std::vector<double> kFive{0.1, 0.4, 0.05, 0.3, 0.15};

TEST(Greedy, TakesTheLargestAndTheLowestIdOnATie) {
  SamplingOptions options;
  options.greedy = true;
  EXPECT_EQ(once(options, {1, 3, 2}).token, 1);
  EXPECT_EQ(once(options, {-5, 2, 2, 2}).token, 1);
  EXPECT_EQ(once(options, {0, 0, 0}).token, 0);
  SamplingOptions cold;
  cold.temperature = 0;
  EXPECT_EQ(once(cold, {1, 3, 3}).token, 1);
}

TEST(Sampling, DrawsWithTheProbabilitiesOfTheModel) { expect_exactly({}, kFive, {0, 1, 2, 3, 4}); }

TEST(Sampling, TemperatureIsAPowerOfTheProbabilities) {
  SamplingOptions options;
  options.temperature = 0.5;
  std::vector<double> squares;
  double total = 0;
  for (double p : kFive) total += p * p;
  for (double p : kFive) squares.push_back(p * p / total);
  auto n = counts(options, logs(kFive), 20000);
  for (std::size_t t = 0; t < kFive.size(); ++t) EXPECT_NEAR(n[static_cast<Token>(t)] / 20000.0, squares[t], 0.018);
}

TEST(Sampling, ATinyTemperatureIsGreedy) {
  SamplingOptions options;
  options.temperature = 1e-42;
  for (std::uint64_t step = 0; step < 20; ++step) EXPECT_EQ(once(options, {1, 3, 2.9f}, {}, step).token, 1);
}

TEST(TopK, KeepsTheKBest) {
  SamplingOptions options;
  options.top_k = 2;
  expect_exactly(options, kFive, {1, 3});
  options.top_k = 1;
  expect_exactly(options, kFive, {1});
  options.top_k = 99;
  expect_exactly(options, kFive, {0, 1, 2, 3, 4});
}

TEST(TopP, KeepsTheSmallestSetThatReachesP) {
  SamplingOptions options;
  options.top_p = 0.65;  // 0.4 + 0.3
  expect_exactly(options, kFive, {1, 3});
  options.top_p = 0.75;  // … + 0.15
  expect_exactly(options, kFive, {1, 3, 4});
  options.top_p = 0.3;
  expect_exactly(options, kFive, {1});
  options.top_p = 0;
  expect_exactly(options, kFive, {1});
}

TEST(MinP, KeepsTokensCloseToTheBest) {
  SamplingOptions options;
  options.min_p = 0.3;  // 0.12 and above
  expect_exactly(options, kFive, {1, 3, 4});
  options.min_p = 0.2;  // 0.08
  expect_exactly(options, kFive, {0, 1, 3, 4});
  options.min_p = 1;
  expect_exactly(options, kFive, {1});
}

TEST(Filters, AreAppliedInOrder) {
  SamplingOptions options;
  options.top_k = 4;    // 1 3 4 0 of mass 0.95
  options.top_p = 0.8;  // of that: 0.4 + 0.3 + 0.15 reach 0.76
  options.min_p = 0.5;  // 0.2 and above
  expect_exactly(options, kFive, {1, 3});
  options.min_p = 0;
  expect_exactly(options, kFive, {1, 3, 4});
}

TEST(Filters, NeverTakeAForbiddenToken) {
  Logits logits{-std::numeric_limits<float>::infinity(), 0, -std::numeric_limits<float>::infinity(), 0};
  auto n = counts({}, logits, 500);
  EXPECT_EQ(n.size(), 2u);
  EXPECT_EQ(n.count(0) + n.count(2), 0u);
}

TEST(Penalties, RepetitionDividesPositiveAndMultipliesNegativeLogits) {
  SamplingOptions options;
  options.greedy = true;
  options.repetition_penalty = 2;
  Sampler sampler(options, 4);
  Logits logits{4, -3, 1, 0};
  std::vector<Token> history{0, 1, 0, 3};  // twice counts once
  sampler.sample(logits, history, 0, 0);
  EXPECT_EQ(logits, (Logits{2, -6, 1, 0}));
  logits = {4, -3, 1, 0};
  sampler.sample(logits, {}, 0, 1);
  EXPECT_EQ(logits, (Logits{4, -3, 1, 0})) << "nothing is remembered from the last call";
}

// Of generated tokens: those of the prompt are not penalized.
TEST(Penalties, PresenceCountsOnceAndFrequencyEveryTime) {
  SamplingOptions options;
  options.greedy = true;
  options.presence_penalty = 0.5;
  options.frequency_penalty = 0.25;
  Sampler sampler(options, 3);
  Logits logits{4, 4, 4};
  std::vector<Token> history{1, 1, 2, 0, 2, 2, 2};
  EXPECT_EQ(sampler.sample(logits, history, 0, 4).token, 1);
  EXPECT_EQ(logits, (Logits{3.25f, 4, 2.75f}));
  logits = {4, 5, 4};
  EXPECT_EQ(sampler.sample(logits, history, 0, 0).token, 1);
  EXPECT_EQ(logits, (Logits{4, 5, 4})) << "all of it is the prompt";
}

TEST(Seed, GivesTheSameTokensAgain) {
  SamplingOptions options;
  options.seed = 7;
  Logits logits = logs(kFive);
  auto text = [&](std::uint64_t seed, std::uint64_t sequence) {
    options.seed = seed;
    Sampler sampler(options, 5);
    std::vector<Token> tokens;
    for (std::uint64_t step = 0; step < 40; ++step) {
      Logits own = logits;
      tokens.push_back(sampler.sample(own, {}, sequence, step).token);
    }
    return tokens;
  };
  EXPECT_EQ(text(7, 0), text(7, 0));
  EXPECT_NE(text(7, 0), text(8, 0));
  EXPECT_NE(text(7, 0), text(7, 1));
}

TEST(Logprob, IsTheModelsOwn) {
  SamplingOptions options;
  options.temperature = 0.3;
  options.top_k = 2;
  options.repetition_penalty = 1.7;
  for (std::uint64_t step = 0; step < 20; ++step) {
    auto choice = once(options, logs(kFive), {1, 1, 4}, step);
    EXPECT_NEAR(choice.logprob, std::log(kFive[static_cast<std::size_t>(choice.token)]), 1e-5);
  }
}

TEST(Logits, ThatAreNoNumbersAreAnError) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (bool greedy : {true, false}) {
      SamplingOptions options;
      options.greedy = greedy;
      try {
        once(options, {1, bad, 2});
        FAIL();
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ExitCode::diverged);
      }
    }
}

// Never a token that a bias or a constraint has ruled out, also where they leave none.
TEST(Sampling, AnEmptyChoiceIsAnError) {
  const float kNever = -std::numeric_limits<float>::infinity();
  for (const bool greedy : {true, false}) {
    SamplingOptions options;
    options.greedy = greedy;
    options.bias = {{0, kNever}, {1, kNever}};
    EXPECT_EQ(once(options, {1, 2, -9}).token, 2);
    Sampler sampler(options, 3);
    Logits logits{1, 2, -9};
    const std::vector<std::uint64_t> allowed{0b011};
    EXPECT_THROW(sampler.sample(logits, {}, 0, 0, allowed), UserError);
    options.bias.push_back({2, kNever});
    EXPECT_THROW(once(options, {1, 2, -9}), UserError);
  }
}

}  // namespace
}  // namespace dml
