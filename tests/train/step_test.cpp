// One optimizer step: the decisions of objective and watcher, compared with sums computed by hand.
#include "train/step.h"

#include <gtest/gtest.h>

#include "dist/thread_ranks.h"
#include "model/golden.h"
#include "train/token_loss.h"

namespace dml {
namespace {

GoldenBatch golden_batch() { return GoldenBatch(golden_path("llama_tiny") + "/batch.json"); }

// The weights of a golden model after steps over the golden batch, one document a micro-batch.
struct Trained {
  std::vector<float> values;
  std::vector<StepResult> results;
};

// A document of the golden batch by itself.
struct Document {
  std::vector<Token> tokens, labels;
  std::vector<std::int32_t> positions, starts;
  Document(const GoldenBatch& batch, std::size_t i) {
    const auto first = batch.starts[i], last = batch.starts[i + 1];
    tokens.assign(batch.tokens.begin() + first, batch.tokens.begin() + last);
    labels.assign(batch.labels.begin() + first, batch.labels.begin() + last);
    positions.assign(batch.positions.begin() + first, batch.positions.begin() + last);
    starts = {0, last - first};
  }
  PackedBatch view() const { return {tokens, labels, positions, starts}; }
};

Trained trained(Comm& comm, Objective& objective, StepWatcher& watcher, std::int64_t steps) {
  const GoldenBatch batch = golden_batch();
  std::vector<Document> documents;
  for (std::size_t i = 0; i + 1 < batch.starts.size(); ++i) documents.emplace_back(batch, i);
  const std::string directory = golden_path("llama_tiny") + "/model";
  auto files = std::make_shared<ModelFiles>(directory);
  Training training;
  training.full = true;
  auto model = build_model(read_model_spec(directory), golden_source(files), training, directory);
  model->set_length(batch.longest());
  model->reserve(objective.measure(*model, {batch.view().size(), batch.view().size(), 1}, true));
  auto optimizer = optimizers().at("sgd").make({});
  auto strategy = strategies().at(comm.size() > 1 ? "ddp" : "none").make(comm, {});
  strategy->adopt(model->parameters, optimizer->state());
  set_empty_pass(*model, objective, *strategy);
  Trained out;
  for (std::int64_t s = 0; s < steps; ++s)
    out.results.push_back(run_step(
        {*model, objective, *strategy, *optimizer, comm},
        {.step = s, .micro_batches = std::ssize(documents), .learning_rate = 0.1},
        [&](std::int64_t m) { return documents[static_cast<std::size_t>(m)].view(); }, watcher));
  for (const Unit& unit : model->parameters.units())
    out.values.insert(out.values.end(), unit.value.floats(), unit.value.floats() + unit.size);
  return out;
}

// Token loss, reported as ten times as much over as many tokens, with two terms beside it.
class TenfoldLoss : public TokenLoss {
 public:
  std::span<const Metric> terms() const override { return terms_; }
  LossSums train(CausalLm& model, const PackedBatch& batch, PassSeed seed, UnitHooks& hooks) override {
    LossSums sums = TokenLoss::train(model, batch, seed, hooks);
    sums.denominator /= 10;
    sums.terms[0] = {static_cast<double>(batch.size()), 1};
    sums.terms[1] = {sums.loss, static_cast<double>(batch.trained())};
    return sums;
  }

 private:
  std::vector<Metric> terms_{{"tokens", true}, {"loss"}};
};

struct Refusing : StepWatcher {
  bool accepts(const StepResult&) override { return false; }
};

TEST(Step, LossAndNormAreMeansOverTheGlobalBatchsTrainedTokens) {
  auto comm = make_self_comm();
  TokenLoss objective;
  StepWatcher no_watcher;
  const StepResult result = trained(*comm, objective, no_watcher, 1).results[0];
  const GoldenBatch batch = golden_batch();
  GoldenModel whole("llama_tiny", false, batch);
  UnitHooks none;
  const double sum = whole.model->train(batch.view(), {}, none);
  EXPECT_NEAR(result.loss, sum / static_cast<double>(batch.view().trained()), 1e-6);
  double squares = 0;
  for (const Unit& unit : whole.model->parameters.units())
    for (std::int64_t i = 0; i < unit.size; ++i) squares += static_cast<double>(unit.grad[i]) * unit.grad[i];
  EXPECT_NEAR(result.grad_norm, std::sqrt(squares) / static_cast<double>(batch.view().trained()), 1e-5);
  EXPECT_EQ(result.sums.tokens, batch.view().size());
  EXPECT_EQ(result.sums.trained_tokens, batch.view().trained());
}

TEST(Step, TheObjectiveDefinesTheDenominatorAndFurtherTerms) {
  auto comm = make_self_comm();
  TokenLoss plain;
  TenfoldLoss tenfold;
  StepWatcher no_watcher;
  const StepResult one = trained(*comm, plain, no_watcher, 1).results[0],
                   ten = trained(*comm, tenfold, no_watcher, 1).results[0];
  EXPECT_DOUBLE_EQ(ten.loss, 10 * one.loss);
  EXPECT_DOUBLE_EQ(ten.grad_norm, 10 * one.grad_norm);
  const auto& terms = ten.sums.losses.terms;
  const GoldenBatch batch = golden_batch();
  EXPECT_EQ(terms[0].sum, static_cast<double>(batch.view().size()));
  EXPECT_EQ(terms[0].weight, static_cast<double>(batch.view().documents()));
  EXPECT_DOUBLE_EQ(terms[1].sum / terms[1].weight, one.loss);
}

TEST(Step, ThatIsRejectedDoesNotChangeTheWeights) {
  auto comm = make_self_comm();
  TokenLoss objective;
  StepWatcher no_watcher;
  Refusing refusing;
  const Trained before = trained(*comm, objective, no_watcher, 0), after = trained(*comm, objective, refusing, 2),
                updated = trained(*comm, objective, no_watcher, 1);
  EXPECT_EQ(after.values, before.values);
  EXPECT_FALSE(after.results[1].updated);
  EXPECT_EQ(after.results[0].loss, after.results[1].loss);
  EXPECT_NE(updated.values, before.values);
  EXPECT_TRUE(updated.results[0].updated);
}

TEST(Step, HasTheSameBitsOnAnyNumberOfRanks) {
  auto self = make_self_comm();
  TenfoldLoss objective;
  StepWatcher no_watcher;
  const Trained one = trained(*self, objective, no_watcher, 3);
  for (int ranks : {2, 3}) {
    run_thread_ranks(ranks, [&](Comm& comm) {
      TenfoldLoss own;
      StepWatcher watcher;
      const Trained many = trained(comm, own, watcher, 3);
      EXPECT_EQ(many.values, one.values) << ranks;
      for (std::size_t s = 0; s < 3; ++s) {
        EXPECT_EQ(many.results[s].loss, one.results[s].loss);
        EXPECT_EQ(many.results[s].grad_norm, one.results[s].grad_norm);
        EXPECT_EQ(many.results[s].sums.losses.terms[1].sum, one.results[s].sums.losses.terms[1].sum);
      }
    });
  }
}

}  // namespace
}  // namespace dml
