// The warnings for the logged values of a run on preferences.
#include "train/preference_warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dml {
namespace {

std::vector<std::string> signs(double chosen_at_end, double margin_at_end, int steps = 20) {
  PreferenceWarnings found;
  for (int s = 0; s < steps; ++s) {
    const double done = static_cast<double>(s) / (steps - 1);
    StepMetrics m;
    m.values = {{"rewards/margins", margin_at_end * done},
                {"logps/chosen", -20 + (chosen_at_end + 20) * done},
                {"logps/rejected", -20 - 10 * done}};
    found.on_step(m);
  }
  return found.warnings();
}

TEST(PreferenceWarnings, SayThatChosenAnswersBecameLessLikely) {
  EXPECT_THAT(signs(-40, 1), testing::ElementsAre(testing::StartsWith("logps/chosen fell from -22.1 to -37.9")));
  EXPECT_TRUE(signs(-21, 1).empty());
  EXPECT_TRUE(signs(-10, 1).empty());
}

TEST(PreferenceWarnings, SayThatRewardsGrewFarApart) {
  EXPECT_THAT(signs(-20, 30), testing::ElementsAre(testing::StartsWith("rewards/margins reached 26.8")));
}

TEST(PreferenceWarnings, TakeTheStepsThatLoggedAValue) {
  PreferenceWarnings found;
  for (int s = 0; s < 20; ++s) {
    StepMetrics m;
    if (s != 18) m.values = {{"rewards/margins", 30}};  // a step of KTO with good answers only
    found.on_step(m);
  }
  EXPECT_THAT(found.warnings(), testing::ElementsAre(testing::StartsWith("rewards/margins reached 30.0")));
}

std::vector<std::string> signs_of_rewards(double length_at_end, double cut, double equal) {
  PreferenceWarnings found;
  for (int s = 0; s < 20; ++s) {
    StepMetrics m;
    m.values = {{"completions/mean_length", 40 + (length_at_end - 40) * s / 19},
                {"completions/clipped_ratio", cut},
                {"frac_reward_zero_std", equal}};
    found.on_step(m);
  }
  return found.warnings();
}

TEST(PreferenceWarnings, SayThatAnswersOnlyGrewOrAreAllWorthTheSame) {
  EXPECT_THAT(signs_of_rewards(120, 0.5, 0.2), testing::ElementsAre(testing::HasSubstr("grew from 48 to 112 tokens")));
  EXPECT_TRUE(signs_of_rewards(120, 0.1, 0.2).empty());
  EXPECT_TRUE(signs_of_rewards(45, 0.9, 0.2).empty());
  EXPECT_THAT(signs_of_rewards(40, 0, 0.95),
              testing::ElementsAre(testing::StartsWith("95 % of the answers train nothing")));
}

TEST(PreferenceWarnings, IgnoreShortRunsAndOtherObjectives) {
  EXPECT_TRUE(signs(-400, 30, 9).empty());
  PreferenceWarnings other;
  for (int s = 0; s < 20; ++s) other.on_step({});
  EXPECT_TRUE(other.warnings().empty());
}

}  // namespace
}  // namespace dml
