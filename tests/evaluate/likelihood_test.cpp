// Log-likelihoods with a shared context against those of whole texts, on golden models of several kinds.
#include "evaluate/likelihood.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "generate/golden_logits.h"

namespace dml {
namespace {

class LikelihoodsOf : public testing::TestWithParam<const char*> {};

std::vector<Token> text(std::int64_t vocabulary, std::size_t length, std::size_t salt) {
  std::vector<Token> out;
  for (std::size_t i = 0; i < length; ++i)
    out.push_back(static_cast<Token>((i * 37 + salt * 101 + 5) % static_cast<std::size_t>(vocabulary)));
  return out;
}

// By the logits of every prefix of the whole text.
double slowly(GoldenLogits& golden, std::vector<Token> context, const std::vector<Token>& continuation) {
  double sum = 0;
  for (Token next : continuation) {
    const auto logits = golden.logits(context);
    double most = logits[0], total = 0;
    for (float x : logits) most = std::max(most, static_cast<double>(x));
    for (float x : logits) total += std::exp(static_cast<double>(x) - most);
    sum += static_cast<double>(logits[static_cast<std::size_t>(next)]) - most - std::log(total);
    context.push_back(next);
  }
  return sum;
}

TEST_P(LikelihoodsOf, ContinuationsAreThoseOfWholeTexts) {
  GoldenLogits golden{GetParam()};
  const std::int64_t vocabulary = golden.model->spec.vocab;
  for (std::size_t length : {1, 2, 9}) {
    const std::vector<Token> context = text(vocabulary, length, 1);
    const std::vector<std::vector<Token>> all{text(vocabulary, 3, 2), text(vocabulary, 1, 3), text(vocabulary, 5, 4)};
    const std::vector<double> together = Likelihoods(*golden.model).of(context, all);
    ASSERT_EQ(together.size(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_NEAR(together[i], slowly(golden, context, all[i]), 2e-4) << GetParam() << " " << length << " " << i;
      EXPECT_NEAR(together[i], Likelihoods(*golden.model).of(context, {&all[i], 1})[0], 1e-4) << "alone";
    }
  }
}

TEST_P(LikelihoodsOf, GreedyIsTheMostLikelyText) {
  GoldenLogits golden{GetParam()};
  const std::vector<Token> context = text(golden.model->spec.vocab, 6, 1);
  std::vector<Token> written, all = context;
  for (int i = 0; i < 3; ++i) {
    const auto logits = golden.logits(all);
    written.push_back(static_cast<Token>(std::ranges::max_element(logits) - logits.begin()));
    all.push_back(written.back());
  }
  const Likelihoods::Greedy own = Likelihoods(*golden.model).greedy(context, written);
  EXPECT_TRUE(own.is_greedy);
  EXPECT_NEAR(own.log_likelihood, slowly(golden, context, written), 2e-4);
  std::vector<Token> other = written;
  other[1] = (other[1] + 1) % static_cast<Token>(golden.model->spec.vocab);
  const Likelihoods::Greedy changed = Likelihoods(*golden.model).greedy(context, other);
  EXPECT_FALSE(changed.is_greedy);
  EXPECT_NEAR(changed.log_likelihood, slowly(golden, context, other), 2e-4);
}

TEST_P(LikelihoodsOf, RollingTextsAreChains) {
  GoldenLogits golden{GetParam()};
  const std::vector<Token> all = text(golden.model->spec.vocab, 12, 6);
  EXPECT_NEAR(Likelihoods(*golden.model).rolling(all, 1), slowly(golden, {1}, all), 3e-4);
}

INSTANTIATE_TEST_SUITE_P(Golden, LikelihoodsOf, testing::Values("llama_tiny", "mistral", "gpt2", "gemma2"),
                         [](auto& of) { return std::string(of.param); });

}  // namespace
}  // namespace dml
