#include "diagnose/autotune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace dml {
namespace {

using testing::ElementsAre;

TEST(Autotune, MeasuresTheRequestedRun) {
  EXPECT_THAT(bench_arguments({"train", "a.yml", "--resume", "auto", "--lora_r", "8"}),
              ElementsAre("bench", "a.yml", "--lora_r", "8", "--warmup=1", "--steps=2", "--json"));
  EXPECT_THAT(bench_arguments({"train", "a.yml", "--resume=none"}),
              ElementsAre("bench", "a.yml", "--warmup=1", "--steps=2", "--json"));
  EXPECT_THROW(bench_arguments({"evaluate", "a.yml"}), UserError);
  EXPECT_THROW(bench_arguments({"train"}), UserError);
}

TEST(Autotune, ReadsARateAmongMessagesOrSaysWhyThereIsNone) {
  const LayoutRate rate = rate_from({2, 4}, "a note\n{\"tok_s\": 1234.5, \"ranks\": 2}\n");
  EXPECT_EQ(rate.tokens_per_second, 1234.5);
  EXPECT_TRUE(rate.problem.empty());
  EXPECT_THAT(rate.text(), testing::HasSubstr("2 ranks × 4 threads: 1"));
  EXPECT_EQ(rate_from({1, 1}, "a note\nnot enough memory\n\n").problem, "not enough memory");
  EXPECT_FALSE(rate_from({1, 1}, "").problem.empty());
}

}  // namespace
}  // namespace dml
