#include "model/adapted_weights.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "golden.h"

namespace dml {
namespace {

UnitHooks silent;

double loss(GoldenModel& m, const GoldenBatch& batch) { return m.model->evaluate(batch.view(), silent); }

class AdaptedWeightsOf : public testing::TestWithParam<const char*> {};

TEST_P(AdaptedWeightsOf, ComputeAfterAMergeWhatTheAdapterDid) {
  GoldenBatch batch(golden_path(GetParam()) + "/batch.json");
  GoldenModel m(GetParam(), true, batch), base(GetParam(), false, batch);
  const double with_adapter = loss(m, batch), without = loss(base, batch);
  ASSERT_GT(std::abs(with_adapter - without), 1e-3 * without);

  AdaptedWeights weights(*m.model, true);
  EXPECT_EQ(loss(m, batch), with_adapter) << "a copy of the weights changes no bit";
  std::vector<float> first_a;
  for (std::int64_t number : {1, 2}) {
    weights.merge();
    weights.reinit_adapters("true", 5, number);
    EXPECT_NEAR(loss(m, batch), with_adapter, 2e-6 * with_adapter) << "merge " << number;
    const float* values = m.model->parameters.units()[1].value.floats();
    std::vector<float> a(values, values + 64);
    EXPECT_NE(a, first_a) << "every restart draws its own numbers";
    first_a = a;
  }
  weights.reset();
  EXPECT_NEAR(loss(m, batch), without, 2e-6 * without) << "B is zero, and the weights are those of the file";
}

INSTANTIATE_TEST_SUITE_P(Goldens, AdaptedWeightsOf,
                         testing::Values("llama_tiny", "gemma2", "phi3", "stablelm_heads", "gpt2"));

TEST(AdaptedWeights, InBfloat16AreRoundedAtEveryMerge) {
  GoldenBatch batch(golden_path("llama_tiny") + "/batch.json");
  auto files = std::make_shared<ModelFiles>(golden_path("llama_tiny") + "/model");
  auto rounded = std::make_shared<std::map<std::string, std::vector<std::uint16_t>>>();
  GoldenModel m("llama_tiny", true, batch, "", 0, [=](const std::string& name) -> std::optional<StoredTensor> {
    const TensorView* t = files->find(name);
    if (!t) return std::nullopt;
    auto& bits = (*rounded)[name];
    bits.resize(static_cast<std::size_t>(t->size()));
    write_floats(DType::bf16, t->floats(name).data(), t->size(), bits.data());
    return StoredTensor{DType::bf16, {t->shape.begin(), t->shape.end()}, bits.data()};
  });
  const double before = loss(m, batch);
  AdaptedWeights weights(*m.model, false);
  for (const auto& matrix : weights.matrices()) EXPECT_EQ(matrix.own.dtype, DType::bf16) << matrix.place.tensor;
  weights.merge();
  weights.reinit_adapters("true", 5, 1);
  EXPECT_NEAR(loss(m, batch), before, 5e-3 * before);
}

TEST(AdaptedWeights, QuantizedOnesAreRefused) {
  GoldenBatch batch(golden_path("llama_tiny") + "/batch.json");
  GoldenModel m("llama_tiny", true, batch);
  for (auto& layer : m.model->layers)
    if (layer.attention.q.lora) layer.attention.q.frozen.dtype = DType::nf4;
  EXPECT_THROW(AdaptedWeights(*m.model, true), UserError);
}

}  // namespace
}  // namespace dml
