#include <gtest/gtest.h>

#include "core/parallel.h"
#include "golden.h"

namespace dml {
namespace {

TEST(Noise, IsOfTheSizeNeftuneSaysAndOfTrainingAlone) {
  UnitHooks no_hooks;
  GoldenBatch batch(golden_path("llama_tiny") + "/batch.json");
  GoldenModel m("llama_tiny", false, batch);
  const double plain = m.model->evaluate(batch.view(), no_hooks),
               trained = m.model->train(batch.view(), {1, 0}, no_hooks);
  m.model->noise = 5;
  EXPECT_EQ(m.model->evaluate(batch.view(), no_hooks), plain);
  const double noisy = m.model->train(batch.view(), {1, 0}, no_hooks);
  EXPECT_NE(noisy, trained);
  EXPECT_NEAR(noisy, trained, 0.2 * trained);
  set_threads(3);
  EXPECT_EQ(m.model->train(batch.view(), {1, 0}, no_hooks), noisy);
  set_threads(1);
  EXPECT_NE(m.model->train(batch.view(), {1, 1}, no_hooks), noisy);
  m.model->noise = 1e-6;
  EXPECT_NEAR(m.model->train(batch.view(), {1, 0}, no_hooks), trained, 1e-3);
}

}  // namespace
}  // namespace dml
