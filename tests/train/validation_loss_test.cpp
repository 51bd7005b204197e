// The loss of a split and of each dataset in it, beside the losses of its documents one by one.
#include "train/validation_loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "dist/thread_ranks.h"
#include "model/golden.h"
#include "train/token_loss.h"

namespace dml {
namespace {

// The golden batch's documents as examples, twice each, every other one of dataset b.
struct Split {
  GoldenBatch batch{golden_path("llama_tiny") + "/batch.json"};
  std::vector<Token> labels = batch.labels;
  std::vector<std::int64_t> offsets{batch.starts.begin(), batch.starts.end()};
  std::vector<std::int32_t> chosen;
  ValidationLoss::Datasets datasets{{"a", "b"}, {}};

  Split() {
    // Examples have labels at their tokens, batches one position earlier.
    for (std::size_t d = 0; d + 1 < batch.starts.size(); ++d) {
      const auto first = labels.begin() + batch.starts[d], last = labels.begin() + batch.starts[d + 1];
      std::rotate(first, last - 1, last);
    }
    for (int again = 0; again < 2; ++again)
      for (std::size_t d = 0; d + 1 < batch.starts.size(); ++d) {
        datasets.numbers.push_back(static_cast<std::int32_t>(chosen.size() % 2));
        chosen.push_back(static_cast<std::int32_t>(d));
      }
  }
  Examples examples() const { return {batch.tokens, labels, offsets, chosen}; }
  Schedule schedule(std::int64_t micro_batch, std::int64_t ranks) const {
    return {
        examples().lengths(),
        {.sequence_len = 512, .micro_batch_size = micro_batch, .micro_batches_per_step = ranks, .keep_order = true}};
  }
};

std::vector<NamedValue> measured(const Split& split, Comm& comm, std::int64_t micro_batch,
                                 const ValidationLoss::Datasets& datasets) {
  GoldenModel golden("llama_tiny", false, split.batch);
  const Schedule schedule = split.schedule(micro_batch, comm.size());
  ValidationLoss evaluator(split.examples(), schedule, datasets, {.on_start = true});
  TokenLoss objective;
  golden.model->reserve(evaluator.memory(*golden.model, objective, comm.rank()).working);
  auto strategy = strategies().at(comm.size() > 1 ? "ddp" : "none").make(comm, {});
  EvaluationResult result;
  evaluator.evaluate({*golden.model, objective, *strategy, comm}, result);
  return result.values;
}

TEST(ValidationLoss, OfEachDatasetIsTheMeanOverItsTrainedTokens) {
  const Split split;
  auto comm = make_self_comm();
  GoldenModel golden("llama_tiny", false, split.batch);
  UnitHooks none;
  std::vector<double> sum(2), count(2);
  for (std::size_t i = 0; i < split.chosen.size(); ++i) {
    const auto d = static_cast<std::size_t>(split.chosen[i]);
    const auto first = static_cast<std::size_t>(split.batch.starts[d]),
               size = static_cast<std::size_t>(split.batch.starts[d + 1]) - first;
    const std::vector<std::int32_t> starts{0, static_cast<std::int32_t>(size)};
    const PackedBatch whole = split.batch.view();
    const PackedBatch alone{whole.tokens.subspan(first, size), whole.labels.subspan(first, size),
                            whole.positions.subspan(first, size), starts};
    sum[i % 2] += golden.model->evaluate(alone, none);
    count[i % 2] += static_cast<double>(alone.trained());
  }
  const auto values = measured(split, *comm, 3, split.datasets);
  ASSERT_EQ(values.size(), 4u);
  EXPECT_EQ(values[0].name, "eval_loss");
  EXPECT_EQ(values[1].name, "eval_ppl");
  EXPECT_EQ(values[2].name, "eval_a_loss");
  EXPECT_EQ(values[3].name, "eval_b_loss");
  EXPECT_NEAR(values[0].value, (sum[0] + sum[1]) / (count[0] + count[1]), 1e-6);
  EXPECT_EQ(values[1].value, std::exp(values[0].value));
  EXPECT_NEAR(values[2].value, sum[0] / count[0], 1e-6);
  EXPECT_NEAR(values[3].value, sum[1] / count[1], 1e-6);
}

TEST(ValidationLoss, HasTheSameBitsOnAnyNumberOfRanksWithDatasetsOrWithout) {
  const Split split;
  auto self = make_self_comm();
  const auto one = measured(split, *self, 2, split.datasets);
  EXPECT_EQ(measured(split, *self, 2, {}), (std::vector<NamedValue>{one[0], one[1]}));
  for (int ranks : {2, 3})
    run_thread_ranks(ranks, [&](Comm& comm) { EXPECT_EQ(measured(split, comm, 2, split.datasets), one) << ranks; });
}

TEST(ValidationLoss, IsMeasuredBeforeTrainingOnRequest) {
  const Split split;
  const Schedule schedule = split.schedule(1, 1);
  const ValidationLoss early(split.examples(), schedule, {}, {.on_start = true}),
      late(split.examples(), schedule, {}, {});
  EXPECT_TRUE(early.due({.step = 0}));
  EXPECT_FALSE(late.due({.step = 0}));
  EXPECT_FALSE(early.due({.step = 1}));
  EXPECT_TRUE(late.due({.step = 1, .scheduled = true}));
}

}  // namespace
}  // namespace dml
