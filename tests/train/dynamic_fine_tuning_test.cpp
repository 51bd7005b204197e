// Dynamic Fine-Tuning beside tools/make_golden.py, which computes it in PyTorch with a detached probability.
#include <gtest/gtest.h>

#include "core/error.h"
#include "model/golden.h"
#include "train/objective_rows.h"

namespace dml {
namespace {

UnitHooks no_hooks;

std::unique_ptr<Objective> dft(const ObjectiveSettings& settings = {}) {
  return objectives().at("dft").make.make(settings);
}

LossSums trained(GoldenModel& golden, Objective& objective, const PackedBatch& batch, const GoldenBatch& shape) {
  golden.zero();
  golden.model->reserve(objective.measure(*golden.model, GoldenModel::shape(shape), true));
  return objective.train(*golden.model, batch, {}, no_hooks);
}

TEST(DynamicFineTuning, LossAndGradientsAreThoseOfPyTorch) {
  const std::string lora = golden_path("llama_tiny") + "/lora";
  const GoldenBatch batch(golden_path("llama_tiny") + "/batch.json");
  GoldenModel golden("llama_tiny", true, batch);
  const auto objective = dft();
  const LossSums sums = trained(golden, *objective, batch.view(), batch);
  EXPECT_EQ(sums.denominator, static_cast<double>(batch.view().trained()));
  const double mean = read_json(lora + "/dft.json")["mean"].get<double>();
  EXPECT_NEAR(sums.mean(), mean, 1e-5 * mean);
  ASSERT_EQ(objective->terms().size(), 1u);
  const double plain = read_json(lora + "/loss.json")["mean"].get<double>();
  EXPECT_NEAR(named_terms(objective->terms(), sums)[0].value, plain, 1e-5 * plain);
  const SafetensorsFile file(lora + "/dft_gradients.safetensors");
  std::size_t seen = 0;
  for (const Unit& unit : golden.model->parameters.units())
    for (const Parameter& p : unit.parameters) {
      ++seen;
      const std::vector<float> expected = file.at(p.name).floats(p.name);
      float most = 0;
      for (float g : expected) most = std::max(most, std::abs(g));
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(unit.grad[p.offset + static_cast<std::int64_t>(i)] / static_cast<float>(sums.denominator),
                    expected[i], 1e-4f * most)
            << p.name << "[" << i << "]";
    }
  EXPECT_EQ(seen, file.tensors().size());
}

// Full fine-tuning computes the head twice; the losses of tokens come from a golden of its own.
TEST(DynamicFineTuning, WeightsOfTokensMultiplyLossAndDenominator) {
  const std::string full = golden_path("llama_tiny") + "/full";
  const GoldenBatch batch(golden_path("llama_tiny") + "/batch.json");
  const auto losses = read_json(full + "/loss.json")["tokens"].get<std::vector<double>>();
  PackedBatch view = batch.view();
  std::vector<float> weights(view.labels.size());
  double loss = 0, denominator = 0;
  for (std::size_t t = 0; t < weights.size(); ++t) {
    weights[t] = 0.25f * static_cast<float>(1 + t % 5);
    if (view.labels[t] == kIgnore) continue;
    loss += static_cast<double>(weights[t]) * std::exp(-losses[t]) * losses[t];
    denominator += static_cast<double>(weights[t]);
  }
  view.weights = weights;
  GoldenModel golden("llama_tiny", false, batch);
  const LossSums sums = trained(golden, *dft({.weighted = true}), view, batch);
  EXPECT_NEAR(sums.loss, loss, 1e-5 * loss);
  EXPECT_NEAR(sums.denominator, denominator, 1e-9);
}

TEST(DynamicFineTuning, IsEvaluatedAsCrossEntropyAndRefusesExtraTerms) {
  const GoldenBatch batch(golden_path("llama_tiny") + "/batch.json");
  GoldenModel golden("llama_tiny", false, batch);
  const double plain = read_json(golden_path("llama_tiny") + "/full/loss.json")["sum"].get<double>();
  EXPECT_NEAR(dft()->evaluate(*golden.model, batch.view(), no_hooks).loss, plain, 1e-5 * plain);
  EXPECT_THROW(dft({.extra = {.label_smoothing = 0.1f}}), UserError);
  EXPECT_THROW(dft({.extra = {.z_loss = 1e-4f}}), UserError);
}

}  // namespace
}  // namespace dml
