#include "diagnose/requirements.h"

#include <gtest/gtest.h>

namespace dml {
namespace {

TEST(Requirements, NameTheSettingsThatBoundALength) {
  Recipe recipe;
  EXPECT_STREQ(length_settings(recipe), "sequence_len");
  recipe.preference.rl = Rl::grpo;
  EXPECT_STREQ(length_settings(recipe), "sequence_len and trl.max_completion_length");
}

}  // namespace
}  // namespace dml
