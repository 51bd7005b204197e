// A model whose trained values lie in bfloat16: the bits of one that holds the same values in float32, and half the
// memory.
#include <gtest/gtest.h>

#include "core/bf16.h"
#include "golden.h"

namespace dml {
namespace {

// The values of a model in float32 become those that bfloat16 has.
void round_values(ParameterStore& store) {
  for (Unit& u : store.units())
    for (std::int64_t i = 0; i < u.size; ++i) u.value.floats()[i] = to_float(to_bf16(u.value.floats()[i]));
}

TEST(Bf16Values, GiveTheBitsOfTheSameValuesInFloat32) {
  for (const std::string& family : golden_families()) {
    SCOPED_TRACE(family);
    GoldenBatch batch(golden_path(family) + "/batch.json");
    GoldenModel wide(family, false, batch),
        narrow(family, false, batch, "", 0, {}, HeadKind::causal_lm, {.bf16 = true});
    round_values(wide.model->parameters);
    UnitHooks no_hooks;
    EXPECT_EQ(narrow.model->evaluate(batch.view(), no_hooks), wide.model->evaluate(batch.view(), no_hooks));
    wide.zero(), narrow.zero();
    EXPECT_EQ(narrow.model->train(batch.view(), {1, 0}, no_hooks), wide.model->train(batch.view(), {1, 0}, no_hooks));
    EXPECT_EQ(narrow.gradients, wide.gradients);
  }
}

TEST(Bf16Values, TakeHalfTheMemoryButForNormsAndBiases) {
  GoldenBatch batch(golden_path("llama_tiny") + "/batch.json");
  GoldenModel wide("llama_tiny", false, batch),
      narrow("llama_tiny", false, batch, "", 0, {}, HeadKind::causal_lm, {.bf16 = true});
  const ParameterStore &a = wide.model->parameters, &b = narrow.model->parameters;
  EXPECT_EQ(a.value_bytes(), 4 * a.floats());
  EXPECT_EQ(b.value_bytes(), 2 * b.floats() + b.widened_bytes());
  std::int64_t vectors = 0;
  for (const Unit& u : b.units())
    for (const Parameter& p : u.parameters) vectors += p.decay ? 0 : (p.size() + 15) / 16 * 64;
  EXPECT_EQ(b.widened_bytes(), vectors);
  EXPECT_GT(vectors, 0);
}

TEST(Bf16Values, AreReadAndSetInEitherForm) {
  GoldenBatch batch(golden_path("llama_tiny") + "/batch.json");
  GoldenModel narrow("llama_tiny", false, batch, "", 0, {}, HeadKind::causal_lm, {.bf16 = true});
  ParameterStore& store = narrow.model->parameters;
  Unit& head = store.units().back();
  const Parameter& norm = head.parameters[0];
  ASSERT_EQ(norm.name, "model.norm.weight");
  const float values[] = {1.25f, 1.001f};
  set_values(head, norm, 3, values);
  float read[2], before = narrow.model->head.norm.weight.value().data[3];
  read_values(head, norm, 3, read);
  EXPECT_EQ(read[0], 1.25f);
  EXPECT_EQ(read[1], to_float(to_bf16(1.001f)));
  EXPECT_EQ(narrow.model->head.norm.weight.value().data[3], before) << "the copy is renewed by widen()";
  store.widen();
  EXPECT_EQ(narrow.model->head.norm.weight.value().data[3], 1.25f);
}

}  // namespace
}  // namespace dml
