#include "pipeline/sweep.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace dml {
namespace {

TEST(SweepGrid, MultipliesListsAndPairs) {
  const auto grid =
      sweep_grid("learning_rate: [1, 2]\n_:\n  - {lora_r: 4, lora_alpha: 8}\n  - {lora_r: 8}\nseed: [7]\n", "g.yml");
  ASSERT_EQ(grid.size(), 4u);
  EXPECT_EQ(dump(grid[0]), R"({"learning_rate":1,"lora_r":4,"lora_alpha":8,"seed":7})");
  EXPECT_EQ(dump(grid[1]), R"({"learning_rate":1,"lora_r":8,"seed":7})");
  EXPECT_EQ(dump(grid[3]), R"({"learning_rate":2,"lora_r":8,"seed":7})");
}

TEST(SweepGrid, ThatIsInvalidIsRejected) {
  for (const char* text : {"[1, 2]", "learning_rate: 1", "learning_rate: []", "_: [1]", "{}"})
    EXPECT_THROW(sweep_grid(text, "g.yml"), UserError) << text;
}

TEST(SweepTable, HasARowForEveryRun) {
  SweepRun good{"run-01", {{"lora_r", 4}}, 0, 1.25, 1.5, 1.375}, bad{"run-02", {{"lora_r", 8}}, 4},
      open{"run-03", {{"seed", 1}}};
  EXPECT_EQ(sweep_table({good, bad, open}),
            "| run | lora_r | seed | loss | eval loss | lowest | exit |\n|---|---|---|--:|--:|--:|--:|\n"
            "| run-01 | 4 |  | 1.2500 | 1.5000 | 1.3750 | 0 |\n| run-02 | 8 |  |  |  |  | 4 |\n| run-03 |  | 1 |  |  | "
            " |  |\n");
}

}  // namespace
}  // namespace dml
