// Documents that begin with the same tokens: computing the beginning once changes no bit of a loss, and gradients only
// by the order of their sums.
#include <gtest/gtest.h>

#include <tuple>

#include "model/golden.h"
#include "model/trimmed_batch.h"

namespace dml {
namespace {

// Two prompts with three and two answers, some without a label, of tokens that are small enough for every golden model.
struct Answers {
  GoldenBatch batch;
  std::vector<std::int32_t> shared;

  explicit Answers(GoldenBatch from) : batch(std::move(from)) {
    batch.tokens.clear(), batch.labels.clear(), batch.positions.clear();
    batch.starts.assign(1, 0);
    std::int32_t prompt = 0;
    for (auto [begins, size, trained] :
         {std::tuple{7, 12, true}, {0, 9, true}, {0, 10, false}, {0, 8, true}, {5, 5, true}, {0, 11, true}}) {
      if (begins > 0) prompt = begins;
      shared.push_back(begins > 0 ? 0 : prompt);
      add(prompt, size, trained);
    }
  }
  void add(std::int32_t prompt, std::int32_t size, bool trained) {
    const auto document = std::ssize(shared);
    const std::size_t first = batch.tokens.size();
    for (std::int32_t t = 0; t < prompt + size; ++t) {
      batch.tokens.push_back(t < prompt ? 3 + (5 * t + prompt) % 23
                                        : 4 + static_cast<Token>((7 * t + 11 * document) % 29));
      batch.positions.push_back(t);
    }
    for (std::int32_t t = 0; t < prompt + size; ++t) {
      const bool labeled = trained && t + 1 >= prompt && t + 1 < prompt + size;
      batch.labels.push_back(labeled ? batch.tokens[first + static_cast<std::size_t>(t) + 1] : kIgnore);
    }
    batch.starts.push_back(static_cast<std::int32_t>(batch.tokens.size()));
  }
  PackedBatch view(bool once) const {
    PackedBatch out = batch.view();
    if (once) out.shared = shared;
    return out;
  }
};

struct Case {
  std::string family;
  bool lora;
};

class SharedPrefixes : public testing::TestWithParam<Case> {};

TEST_P(SharedPrefixes, ChangeNoLossAndOnlyTheOrderOfGradients) {
  const auto& [family, lora] = GetParam();
  const Answers answers(GoldenBatch(golden_path(family) + "/batch.json"));
  GoldenModel apart(family, lora, answers.batch), once(family, lora, answers.batch);
  CausalLm::Shape shape = GoldenModel::shape(answers.batch);
  shape.shared = true;
  once.model->reserve(once.model->measure(shape, true));
  UnitHooks none;
  std::vector<float> losses(static_cast<std::size_t>(answers.batch.view().trained())), shared = losses;
  EXPECT_EQ(apart.model->evaluate(answers.view(false), none, losses),
            once.model->evaluate(answers.view(true), none, shared));
  EXPECT_EQ(losses, shared);
  EXPECT_EQ(apart.model->train(answers.view(false), {}, none), once.model->train(answers.view(true), {}, none));
  for (std::size_t u = 0; u < apart.gradients.size(); ++u) {
    float most = 1e-3f;
    for (const float g : apart.gradients[u]) most = std::max(most, std::abs(g));
    for (std::size_t i = 0; i < apart.gradients[u].size(); ++i)
      ASSERT_NEAR(once.gradients[u][i], apart.gradients[u][i], 1e-5f * most) << "unit " << u << ", value " << i;
  }
}

// A plain family and one of every kind that could matter: windows, sinks, ALiBi, norms of heads, latent attention,
// parallel layers, learned positions, experts, ropes that depend on the length.
INSTANTIATE_TEST_SUITE_P(Families, SharedPrefixes,
                         testing::Values(Case{"llama_tiny", false}, Case{"llama_tiny", true}, Case{"gemma2", true},
                                         Case{"gpt_oss", true}, Case{"bloom", false}, Case{"qwen3", true},
                                         Case{"deepseek_v3", true}, Case{"gpt_neox", true}, Case{"gpt2", false},
                                         Case{"olmoe", true}),
                         [](auto& of) { return of.param.family + (of.param.lora ? "_lora" : "_full"); });

TEST(SharedBeginningRows, AreVisitedOnce) {
  const Answers answers(GoldenBatch(golden_path("llama_tiny") + "/batch.json"));
  Arena arena(1 << 20);
  const PackedBatch given = answers.view(true);
  const TrimmedBatch apart = trimmed(given, arena, Trim::labeled), once = trimmed(given, arena, Trim::shared_prefixes);
  EXPECT_FALSE(apart.shared);
  ASSERT_TRUE(once.shared);
  // Three answers after the first prompt, whose last token feeds a label of its own in each; one without a label
  // between them.
  EXPECT_EQ(apart.batch.size() - once.batch.size(), 2 * 6 + 4);
  ASSERT_EQ(std::ssize(once.shared.rows), apart.batch.size());
  ASSERT_EQ(std::ssize(once.shared.firsts), once.batch.size());
  for (std::size_t i = 0; i < once.shared.rows.size(); ++i) {
    const auto row = static_cast<std::size_t>(once.shared.rows[i]);
    EXPECT_EQ(once.batch.tokens[row], apart.batch.tokens[i]);
    EXPECT_EQ(once.batch.positions[row], apart.batch.positions[i]);
    if (apart.batch.labels[i] != kIgnore) {
      EXPECT_EQ(once.batch.labels[row], apart.batch.labels[i]);
    }
    EXPECT_LE(static_cast<std::size_t>(once.shared.firsts[row]), i);
  }
  EXPECT_EQ(std::vector(once.shared.starts.begin(), once.shared.starts.end()),
            std::vector(apart.batch.starts.begin(), apart.batch.starts.end()));
  EXPECT_EQ(given.trained(), once.batch.trained());
}

TEST(SharedBeginningRows, AreMeasuredAsTheyAreVisited) {
  const Answers answers(GoldenBatch(golden_path("llama_tiny") + "/batch.json"));
  GoldenModel golden("llama_tiny", true, answers.batch);
  CausalLm::Shape shape = GoldenModel::shape(answers.batch);
  shape.shared = true;
  const std::size_t bound = golden.model->measure(shape, true);
  EXPECT_LE(golden.model->measure(answers.view(true), true), bound);
  golden.model->reserve(golden.model->measure(answers.view(true), true));  // exactly what is taken
  UnitHooks none;
  golden.model->train(answers.view(true), {}, none);
}

// Also where a document has fewer labeled rows than products take as dots: a reward model reads one row of each.
TEST(PackedDocuments, LossesDoNotDependOnOtherDocuments) {
  const Answers answers(GoldenBatch(golden_path("llama_tiny") + "/batch.json"));
  for (const HeadKind head : {HeadKind::causal_lm, HeadKind::sequence_classification})
    for (const bool lora : {false, true}) {
      if (lora && head != HeadKind::causal_lm) continue;  // the golden adapter has no such head
      GoldenModel golden("llama_tiny", lora, answers.batch, "", 0, {}, head);
      GoldenBatch batch = answers.batch;
      if (head == HeadKind::sequence_classification) {
        std::ranges::fill(batch.labels, kIgnore);
        for (std::size_t d = 1; d < batch.starts.size(); ++d)
          batch.labels[static_cast<std::size_t>(batch.starts[d]) - 1] = 0;
      }
      UnitHooks none;
      std::vector<float> together(static_cast<std::size_t>(batch.view().trained())), apart;
      golden.model->evaluate(batch.view(), none, together);
      for (std::size_t d = 0; d + 1 < batch.starts.size(); ++d) {
        GoldenBatch one = batch;
        const auto first = batch.starts[d], last = batch.starts[d + 1];
        one.tokens.assign(batch.tokens.begin() + first, batch.tokens.begin() + last);
        one.labels.assign(batch.labels.begin() + first, batch.labels.begin() + last);
        one.positions.assign(batch.positions.begin() + first, batch.positions.begin() + last);
        one.starts = {0, last - first};
        std::vector<float> losses(static_cast<std::size_t>(one.view().trained()));
        golden.model->evaluate(one.view(), none, losses);
        apart.insert(apart.end(), losses.begin(), losses.end());
      }
      EXPECT_EQ(apart, together) << "head " << static_cast<int>(head) << ", adapter " << lora;
    }
}

}  // namespace
}  // namespace dml
