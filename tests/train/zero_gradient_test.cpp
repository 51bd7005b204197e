// The warning that a run trains nothing.
#include "train/zero_gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dml {
namespace {

StepMetrics step(std::int64_t number, std::int64_t trained, double gradient) {
  StepMetrics m;
  m.step = number, m.trained_tokens = trained, m.grad_norm = gradient;
  return m;
}

TEST(ZeroGradient, IsReportedOnceAndOnlyForStepsWithTrainedTokens) {
  ZeroGradient observer;
  observer.on_step(step(1, 12, 0.5));
  observer.on_step(step(2, 0, 0));
  EXPECT_EQ(observer.warning(), "");
  observer.on_step(step(3, 12, 0));
  observer.on_step(step(4, 12, 0));
  EXPECT_THAT(observer.warning(), testing::StartsWith("the gradient of step 3 is 0"));
}

}  // namespace
}  // namespace dml
