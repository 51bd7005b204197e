// Objectives over groups of documents: their gradients beside those of single documents' token losses, and what they
// log.
#include <gtest/gtest.h>

#include "train/grouped_batch.h"
#include "train/objective/pair_objective.h"
#include "train/objective/unpaired_objective.h"
#include "train/token_loss.h"

namespace dml {
namespace {

using Gradients = std::vector<std::vector<float>>;

// What a weight for each document's answer, and one for the prompts of chosen documents, make of token losses.
Gradients weighted_sum(const GroupedBatch& batch, bool lora, const std::vector<double>& answers,
                       double chosen_prompts) {
  Gradients sum;
  for (std::size_t d = 0; d < answers.size(); ++d)
    for (bool answer : {true, false}) {
      const double weight = answer ? answers[d] : d % 2 == 0 ? chosen_prompts : 0;
      if (weight == 0) continue;
      GoldenModel golden("llama_tiny", lora, batch.golden);
      UnitHooks none;
      const auto labels = batch.labels_of(d, answer);
      golden.model->train({batch.golden.tokens, labels, batch.golden.positions, batch.golden.starts}, {}, none);
      if (sum.empty()) {
        sum = golden.gradients;
        for (auto& g : sum) std::ranges::fill(g, 0.f);
      }
      for (std::size_t u = 0; u < sum.size(); ++u)
        for (std::size_t i = 0; i < sum[u].size(); ++i)
          sum[u][i] += static_cast<float>(weight) * golden.gradients[u][i];
    }
  return sum;
}

void expect_near(const Gradients& found, const Gradients& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t u = 0; u < found.size(); ++u) {
    float most = 0;
    for (float g : expected[u]) most = std::max(most, std::abs(g));
    for (std::size_t i = 0; i < found[u].size(); ++i)
      ASSERT_NEAR(found[u][i], expected[u][i], 1e-4f * std::max(most, 1e-3f)) << "unit " << u << ", value " << i;
  }
}

// A loss's derivatives by the sums of the documents' answers, from its values.
template <class O>
std::vector<double> slopes(O& objective, const GroupedBatch& batch, const std::vector<float>& losses) {
  std::vector<double> out;
  std::vector<float> weights(losses.size());
  objective.score(batch.view(), losses, weights);
  std::size_t row = 0;
  out.resize(batch.groups.size());
  each_labeled_row(batch.view(), [&](std::int64_t d, bool answer, double) {
    if (answer) out[static_cast<std::size_t>(d)] = static_cast<double>(weights[row]);
    ++row;
  });
  return out;
}

GlobalBatch global(CausalLm& model, const std::function<PackedBatch(std::int64_t)>& load, UnitHooks& hooks,
                   Comm& comm) {
  return {1, load, model, hooks, comm};
}

class Preferences : public testing::TestWithParam<bool> {};  // whether an adapter is trained

TEST_P(Preferences, GradientIsCrossEntropysWithAWeightForEachAnswer) {
  const GroupedBatch batch(true);
  for (const PairLossRow& row : pair_losses()) {
    PairObjective objective({.terms = {{&row, 0.5}}, .loss = {.beta = 0.05, .label_smoothing = 0.1}});
    GoldenModel golden("llama_tiny", GetParam(), batch.golden);
    golden.model->reserve(objective.measure(*golden.model, GoldenModel::shape(batch.golden), true));
    auto comm = make_self_comm();
    UnitHooks none;
    const std::function<PackedBatch(std::int64_t)> load = [&](std::int64_t) { return batch.view(); };
    objective.begin(global(*golden.model, load, none, *comm));
    std::vector<float> losses(static_cast<std::size_t>(batch.view().trained()));
    golden.model->evaluate(batch.view(), none, losses);
    const std::vector<double> weights = slopes(objective, batch, losses);
    objective.train(*golden.model, batch.view(), {}, none);
    expect_near(golden.gradients, weighted_sum(batch, GetParam(), weights, 0));
  }
}

TEST_P(Preferences, CrossEntropyOfTheChosenIsAMeanOverTheGlobalBatch) {
  const GroupedBatch batch(true);
  PairObjective objective({.terms = {{find_pair_loss(reference_free_losses(), "orpo")}},
                           .reference = false,
                           .nll = NllTokens::whole,
                           .nll_weight = 1});
  GoldenModel golden("llama_tiny", GetParam(), batch.golden);
  golden.model->reserve(objective.measure(*golden.model, GoldenModel::shape(batch.golden), true));
  auto comm = make_self_comm();
  UnitHooks none;
  const std::function<PackedBatch(std::int64_t)> load = [&](std::int64_t) { return batch.view(); };
  objective.begin(global(*golden.model, load, none, *comm));
  std::vector<float> losses(static_cast<std::size_t>(batch.view().trained()));
  golden.model->evaluate(batch.view(), none, losses);
  const std::vector<double> weights = slopes(objective, batch, losses);
  const LossSums sums = objective.train(*golden.model, batch.view(), {}, none);
  double nll = 0, tokens = 0;
  std::size_t row = 0;
  each_labeled_row(batch.view(), [&](std::int64_t d, bool, double) {
    if (d % 2 == 0) nll += static_cast<double>(losses[row]), tokens += 1;
    ++row;
  });
  const double pairs = static_cast<double>(batch.groups.size() / 2);
  EXPECT_EQ(sums.denominator, pairs);
  EXPECT_NEAR(sums.terms[6].sum / sums.terms[6].weight, nll / tokens, 1e-6);
  expect_near(golden.gradients, weighted_sum(batch, GetParam(), weights, pairs / tokens));
}

// WPO: each pair counts exp of the sum of its documents' means of log p − log Σ p².
TEST_P(Preferences, WeightedPairsCountByTheirOwnProbability) {
  const GroupedBatch batch(true);
  const PairLossRow* sigmoid = find_pair_loss(pair_losses(), "sigmoid");
  PairObjective plain({.terms = {{sigmoid}}}), weighted({.terms = {{sigmoid}}, .weighting = true});
  GoldenModel golden("llama_tiny", GetParam(), batch.golden);
  golden.model->reserve(weighted.measure(*golden.model, GoldenModel::shape(batch.golden), true));
  UnitHooks none;
  std::vector<float> losses(static_cast<std::size_t>(batch.view().trained())), squares(losses.size());
  golden.model->evaluate(batch.view(), none, losses, Adapters::on, squares);
  std::vector<DocumentScore> scores;
  score_documents(batch.view(), losses, scores, squares);
  double expected = 0;
  std::vector<DocumentLoss> of_pairs(scores.size());
  plain.evaluate(*golden.model, batch.view(), none, of_pairs);
  std::vector<double> weights(scores.size());
  for (std::size_t d = 0; d < scores.size(); d += 2) {
    weights[d] = std::exp(scores[d].aligned / scores[d].tokens + scores[d + 1].aligned / scores[d + 1].tokens);
    expected += weights[d] * of_pairs[d].loss;
  }
  EXPECT_NEAR(weighted.evaluate(*golden.model, batch.view(), none).loss, expected, 1e-9);
  EXPECT_NE(weights[0], weights[2]);
  std::vector<double> slope = slopes(plain, batch, losses);
  for (std::size_t d = 0; d < slope.size(); ++d) slope[d] *= weights[d / 2 * 2];
  EXPECT_NEAR(weighted.train(*golden.model, batch.view(), {}, none).loss, expected, 1e-6);
  expect_near(golden.gradients, weighted_sum(batch, GetParam(), slope, 0));
  EXPECT_FALSE(weighted.loss_at_start());
}

TEST_P(Preferences, WeightsOfOneChangeNoBit) {
  const GroupedBatch batch(true);
  struct Ones : RowWeights {
    void weigh(std::span<const float>, std::span<float> weights) override { std::ranges::fill(weights, 1.f); }
    double denominator() const override { return 1; }
    void add_router_losses(double) override {}
  } ones;
  GoldenModel plain("llama_tiny", GetParam(), batch.golden), weighted("llama_tiny", GetParam(), batch.golden);
  CausalLm::Shape shape = GoldenModel::shape(batch.golden);
  shape.weighted = true;
  weighted.model->reserve(weighted.model->measure(shape, true));
  UnitHooks none;
  EXPECT_EQ(plain.model->train(batch.view(), {}, none), weighted.model->train(batch.view(), {}, none, &ones));
  EXPECT_EQ(plain.gradients, weighted.gradients);
}

// The router losses are weighted by the denominator of the micro-batch, so that its division leaves their coefficient.
TEST(RouterLosses, CountAsMuchAsTheLossWhateverItsDenominator) {
  struct Tenfold : RowWeights {
    void weigh(std::span<const float> losses, std::span<float> weights) override {
      std::ranges::fill(weights, 10.f);
      rows = static_cast<double>(losses.size());
    }
    double denominator() const override { return 10 * rows; }
    void add_router_losses(double sum) override { routers += sum; }
    double rows = 0, routers = 0;
  } tenfold;
  GoldenBatch batch(golden_path("mixtral") + "/batch.json");
  GoldenModel plain("mixtral", false, batch), weighted("mixtral", false, batch);
  CausalLm::Shape shape = GoldenModel::shape(batch);
  shape.weighted = true;
  for (GoldenModel* m : {&plain, &weighted}) {
    m->model->spec.moe.balance = 0.5;
    m->model->reserve(m->model->measure(shape, true));
  }
  UnitHooks none;
  const double with_routers = plain.model->train(batch.view(), {}, none),
               without = weighted.model->train(batch.view(), {}, none, &tenfold);
  EXPECT_GT(tenfold.routers, 0);
  EXPECT_NEAR(10 * with_routers, 10 * without + tenfold.routers, 1e-3);
  for (auto& unit : plain.gradients)
    for (float& g : unit) g *= 10;
  expect_near(weighted.gradients, plain.gradients);
  kernels::ExtraLoss extra{.z_loss = 1e-4f};
  EXPECT_NEAR(plain.model->train(batch.view(), {}, none, nullptr, &extra), without, 1e-4);
  EXPECT_GT(extra.sum, tenfold.routers / 10);
}

TEST_P(Preferences, WeightsOfTokensMakeAWeightedMean) {
  const GroupedBatch batch(true);
  PackedBatch view = batch.golden.view();
  std::vector<float> weights(view.labels.size());
  for (std::size_t d = 0; d + 1 < view.starts.size(); ++d)
    for (auto t = static_cast<std::size_t>(view.starts[d]); t < static_cast<std::size_t>(view.starts[d + 1]); ++t)
      weights[t] = 0.5f * static_cast<float>(d + 1);
  view.weights = weights;
  TokenLoss objective({}, true);
  GoldenModel golden("llama_tiny", GetParam(), batch.golden);
  golden.model->reserve(objective.measure(*golden.model, GoldenModel::shape(batch.golden), true));
  UnitHooks none;
  std::vector<DocumentLoss> documents(4);
  const LossSums evaluated = objective.evaluate(*golden.model, view, none, documents);
  std::vector<DocumentScore> plain;
  std::vector<float> losses;
  score_documents(*golden.model, batch.golden.view(), none, losses, plain);
  double loss = 0, denominator = 0;
  for (std::size_t d = 0; d < documents.size(); ++d) {
    const double weight = 0.5 * static_cast<double>(d + 1);
    loss += weight * plain[d].loss, denominator += weight * plain[d].tokens;
    EXPECT_NEAR(documents[d].loss, weight * plain[d].loss, 1e-9);
  }
  EXPECT_NEAR(evaluated.loss, loss, 1e-9);
  EXPECT_NEAR(evaluated.denominator, denominator, 1e-9);
  const LossSums trained = objective.train(*golden.model, view, {}, none);
  EXPECT_NEAR(trained.loss, loss, 1e-5);
  GroupedBatch whole = batch;  // every label counts as the answer's
  for (DocumentGroup& g : whole.groups) g.completion = 0;
  expect_near(golden.gradients, weighted_sum(whole, GetParam(), {0.5, 1, 1.5, 2}, 0));
}

INSTANTIATE_TEST_SUITE_P(FullAndLora, Preferences, testing::Bool(),
                         [](auto& of) { return of.param ? std::string("lora") : std::string("full"); });

TEST(UnpairedPreferences, MismatchedAnswersMeasureTheDivergence) {
  const GroupedBatch batch(false);
  GroupedBatch other(false);
  for (DocumentGroup& g : other.groups) g.reference = -100;  // the model likes them better: the divergence is positive
  UnpairedObjective objective({.beta = 0.05}, GoldenModel::shape(batch.golden));
  GoldenModel golden("llama_tiny", true, batch.golden);
  golden.model->reserve(objective.measure(*golden.model, GoldenModel::shape(batch.golden), true));
  const PackedBatch mismatched = other.view();
  PackedBatch view = batch.view();
  view.mismatched = &mismatched;
  auto comm = make_self_comm();
  UnitHooks none;
  const std::function<PackedBatch(std::int64_t)> load = [&](std::int64_t) { return view; };
  objective.begin(global(*golden.model, load, none, *comm));
  std::vector<float> losses(static_cast<std::size_t>(view.trained()));
  std::vector<DocumentScore> scores;
  score_documents(*golden.model, view, none, losses, scores);
  double gain = 0;
  for (const DocumentScore& s : scores) gain += s.answer + 100;
  EXPECT_NEAR(objective.divergence(), gain / static_cast<double>(scores.size()), 1e-9);
  const std::vector<double> weights = slopes(objective, batch, losses);
  const LossSums sums = objective.train(*golden.model, view, {}, none);
  expect_near(golden.gradients, weighted_sum(batch, true, weights, 0));
  double expected = 0;
  for (std::size_t d = 0; d < scores.size(); ++d)
    expected +=
        unpaired_loss(scores[d].answer - batch.groups[d].reference, d % 2 == 0, objective.divergence(), {.beta = 0.05})
            .value;
  EXPECT_NEAR(sums.loss, expected, 1e-12);
}

// The names that a step over good answers, bad answers or both logs.
std::vector<std::string> logged(const std::function<DocumentRole(std::size_t document)>& role) {
  GroupedBatch batch(false);
  for (std::size_t d = 0; d < batch.groups.size(); ++d) batch.groups[d].role = role(d);
  UnpairedObjective objective({.beta = 0.05, .apo_zero = true}, {});
  GoldenModel golden("llama_tiny", true, batch.golden);
  golden.model->reserve(objective.measure(*golden.model, GoldenModel::shape(batch.golden), true));
  auto comm = make_self_comm();
  UnitHooks none;
  const std::function<PackedBatch(std::int64_t)> load = [&](std::int64_t) { return batch.view(); };
  objective.begin(global(*golden.model, load, none, *comm));
  std::vector<std::string> out;
  for (const NamedValue& v : named_terms(objective.terms(), objective.train(*golden.model, batch.view(), {}, none)))
    out.push_back(v.name);
  return out;
}

TEST(UnpairedPreferences, OneKindOfAnswerHasNoMargin) {
  constexpr DocumentRole kGood = DocumentRole::desirable, kBad = DocumentRole::undesirable;
  using Names = std::vector<std::string>;
  EXPECT_EQ(logged([](std::size_t d) { return d % 2 == 0 ? kGood : kBad; }),
            (Names{"rewards/chosen", "rewards/rejected", "rewards/margins", "logps/chosen", "logps/rejected"}));
  EXPECT_EQ(logged([](std::size_t) { return kGood; }), (Names{"rewards/chosen", "logps/chosen"}));
  EXPECT_EQ(logged([](std::size_t) { return kBad; }), (Names{"rewards/rejected", "logps/rejected"}));
}

}  // namespace
}  // namespace dml
