#include "assembly/reward_sources.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "temporary_folder.h"

namespace dml {
namespace {

TEST(RewardSources, LimitTheWeightOfAModelLikeThatOfACheck) {
  const testing_tools::TemporaryFolder folder;
  Recipe recipe;
  recipe.preference.rewards.resize(1);
  EvalCheck& reward = recipe.preference.rewards[0];
  for (const bool model : {true, false}) {
    reward.name = model ? "model" : "regex";
    reward.value = model ? folder.path() : "a";
    recipe.preference.trl.reward_weights = {-1e6};
    EXPECT_EQ(RewardSources(recipe).weights().at(0), -1e6);
    recipe.preference.trl.reward_weights = {1e7};
    try {
      RewardSources{recipe};
      ADD_FAILURE() << reward.name;
    } catch (const UserError& e) {
      const std::string what = e.what();
      EXPECT_NE(what.find("rewards: weight of '" + reward.name + "' is 1"), what.npos) << what;
    }
  }
}

}  // namespace
}  // namespace dml
