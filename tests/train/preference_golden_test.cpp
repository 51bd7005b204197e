// Losses and gradients of every objective over documents against PyTorch's (tools/make_preference_golden.py), in full
// and through an adapter. A gradient is compared by its norm and by its product with cos(1), cos(2), ….
#include <gtest/gtest.h>

#include <cmath>

#include "train/grouped_batch.h"
#include "train/objective/pair_objective.h"
#include "train/objective/reward_objective.h"
#include "train/objective/unpaired_objective.h"

namespace dml {
namespace {

constexpr double kNear = 1e-4;

class PreferenceGoldens : public testing::TestWithParam<bool> {  // whether an adapter is trained
 protected:
  const Json all = read_json(golden_path("preferences.json"));
  double number(const char* key) const { return all[key].get<double>(); }

  GroupedBatch batch(bool pairs, double ld_alpha = 1) const {
    GroupedBatch out(pairs);
    std::vector<DocumentScore> counted(out.groups.size());
    each_labeled_row(out.view(), [&](std::int64_t d, bool answer, double) {
      counted[static_cast<std::size_t>(d)].tokens += answer;
    });
    for (std::size_t d = 0; d < out.groups.size(); ++d) {
      DocumentGroup& g = out.groups[d];
      g.reference = -5.0 * counted[d].tokens - 0.4 * static_cast<double>(d);
      g.margin = number("margin");
      if (ld_alpha == 1) continue;
      g.tail = g.completion + static_cast<std::int32_t>(std::min(counted[d].tokens, counted[d ^ 1].tokens));
      g.tail_weight = ld_alpha;
    }
    return out;
  }

  void expect(const char* name, Objective& objective, const PackedBatch& view, GoldenModel& golden) {
    CausalLm& model = *golden.model;
    CausalLm::Shape shape{view.size(), view.trained(), view.documents()};
    model.reserve(objective.measure(model, shape, true));
    auto comm = make_self_comm();
    UnitHooks none;
    const std::function<PackedBatch(std::int64_t)> load = [&](std::int64_t) { return view; };
    objective.begin({1, load, model, none, *comm});
    const LossSums sums = objective.train(model, view, {}, none);
    const Json& wanted = all[name][GetParam() ? "lora" : "full"];
    const double loss = wanted["loss"].get<double>();
    EXPECT_NEAR(sums.loss, loss, kNear * std::max(1.0, std::abs(loss))) << name;
    double largest = 0;
    for (auto& [tensor, probe] : wanted["gradients"].items()) largest = std::max(largest, probe[0].get<double>());
    std::size_t compared = 0;
    for (const Unit& u : model.parameters.units())
      for (const Parameter& p : u.parameters) {
        if (!wanted["gradients"].contains(p.name)) continue;
        const float* g = golden.gradients[u.number].data() + p.offset;
        double squares = 0, wave = 0;
        for (std::int64_t i = 0; i < p.size(); ++i) {
          squares += static_cast<double>(g[i]) * static_cast<double>(g[i]);
          wave += static_cast<double>(g[i]) * std::cos(static_cast<double>(i + 1));
        }
        const Json& probe = wanted["gradients"][p.name];
        EXPECT_NEAR(std::sqrt(squares), probe[0].get<double>(), kNear * largest) << name << ": " << p.name;
        EXPECT_NEAR(wave, probe[1].get<double>(), kNear * largest) << name << ": " << p.name;
        ++compared;
      }
    EXPECT_EQ(compared, wanted["gradients"].size()) << name;
  }

  void expect_pair(const char* name, PairObjectiveSettings settings, double ld_alpha = 1) {
    const GroupedBatch grouped = batch(true, ld_alpha);
    GoldenModel golden("llama_tiny", GetParam(), grouped.golden);
    PairObjective objective(std::move(settings));
    expect(name, objective, grouped.view(), golden);
  }
  PairSettings settings() const { return {.beta = number("beta"), .label_smoothing = number("label_smoothing")}; }
};

TEST_P(PreferenceGoldens, EveryLossOfPairsWithAReference) {
  for (const PairLossRow& row : pair_losses()) expect_pair(row.name.c_str(), {.terms = {{&row}}, .loss = settings()});
}

TEST_P(PreferenceGoldens, EveryDivergence) {
  const PairLossRow& sigmoid = *find_pair_loss(pair_losses(), "sigmoid");
  for (auto [name, divergence] : {std::pair{"sigmoid forward_kl", Divergence::forward_kl},
                                  std::pair{"sigmoid js_divergence", Divergence::js_divergence},
                                  std::pair{"sigmoid alpha_divergence", Divergence::alpha_divergence}}) {
    PairSettings s = settings();
    s.divergence = divergence;
    expect_pair(name, {.terms = {{&sigmoid}}, .loss = s});
  }
}

TEST_P(PreferenceGoldens, LossesWithoutAReference) {
  auto row = [](const char* name) { return find_pair_loss(reference_free_losses(), name); };
  PairSettings s = settings();
  expect_pair("cpo",
              {.terms = {{row("sigmoid")}}, .loss = s, .reference = false, .nll = NllTokens::answer, .nll_weight = 1});
  s.margin = 0.5;
  expect_pair("simpo", {.terms = {{row("simpo")}}, .loss = s, .reference = false});
  expect_pair("orpo",
              {.terms = {{row("orpo")}}, .loss = s, .reference = false, .nll = NllTokens::whole, .nll_weight = 1});
}

TEST_P(PreferenceGoldens, LongerAnswersWithATail) {
  expect_pair("ld_alpha", {.terms = {{find_pair_loss(pair_losses(), "sigmoid")}}, .loss = {.beta = number("beta")}},
              0.3);
}

// The divergence of the golden is that of mismatched answers whose scores the reference has so much lower.
TEST_P(PreferenceGoldens, SingleAnswers) {
  const GroupedBatch grouped = batch(false);
  GoldenModel golden("llama_tiny", GetParam(), grouped.golden);
  CausalLm::Shape shape = GoldenModel::shape(grouped.golden);
  UnpairedObjective objective({.beta = number("beta")}, shape);
  golden.model->reserve(objective.measure(*golden.model, shape, true));
  GroupedBatch other = grouped;
  std::vector<float> losses;
  std::vector<DocumentScore> scores;
  UnitHooks none;
  score_documents(*golden.model, grouped.view(), none, losses, scores);
  for (std::size_t d = 0; d < scores.size(); ++d) other.groups[d].reference = scores[d].answer - number("divergence");
  const PackedBatch mismatched = other.view();
  PackedBatch view = grouped.view();
  view.mismatched = &mismatched;
  expect("kto", objective, view, golden);
}

TEST_P(PreferenceGoldens, RewardModels) {
  GroupedBatch grouped = batch(true);
  grouped.golden.labels.assign(grouped.golden.labels.size(), kIgnore);
  for (std::size_t d = 1; d < grouped.golden.starts.size(); ++d)
    grouped.golden.labels[static_cast<std::size_t>(grouped.golden.starts[d]) - 1] = 0;
  GoldenModel golden("llama_tiny", GetParam(), grouped.golden, "", 0, {}, HeadKind::sequence_classification);
  RewardObjective objective(number("centring"));
  expect("reward", objective, grouped.view(), golden);
}

INSTANTIATE_TEST_SUITE_P(FullAndLora, PreferenceGoldens, testing::Bool(),
                         [](auto& of) { return of.param ? std::string("lora") : std::string("full"); });

}  // namespace
}  // namespace dml
