#include "data/difference.h"

#include <gmock/gmock.h>

#include "data/input_text.h"
#include "data/prepare_fixture.h"

namespace dml {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class DifferenceTest : public PrepareTest {
 protected:
  DifferenceTest() { add(path("a.jsonl"), "alpaca"); }
  Prepared run(const std::string& rows) {
    write("a.jsonl", rows);
    return PrepareTest::run();
  }
};

TEST_F(DifferenceTest, ReportsTheChangeOfEachRow) {
  const Prepared before = run(row("a", "b") + row("c", "d") + row("e", "f"));
  EXPECT_EQ(compare(before, before).lines().front(), "same settings and data files");
  const Prepared after = run(row("a", "b") + row("c", "dd"));
  const Difference d = compare(before, after);
  EXPECT_THAT(d.inputs, Contains(HasSubstr("datasets[0] a.jsonl: ")));
  EXPECT_EQ(d.same, 1);
  EXPECT_EQ(d.other_tokens, 1);
  EXPECT_EQ(d.gone, 1);
  EXPECT_EQ(compare(after, before).fresh, 1);
  EXPECT_THAT(d.lines(), Contains(HasSubstr("a.jsonl:3: removed, had ")));
}

TEST_F(DifferenceTest, DistinguishesChangedMasksFromChangedTokens) {
  const std::string rows = row("a", "b") + row("c", "d");
  const Prepared before = run(rows);
  data.train_on_inputs = true;
  const Prepared after = run(rows);
  const Difference d = compare(before, after);
  EXPECT_EQ(d.other_labels, 2);
  const auto tokens = after.train().lengths()[0];
  EXPECT_THAT(d.lines(), Contains(HasSubstr(fmt::format("{} tokens, {} trained", tokens, tokens - 1))))
      << "nothing predicts the first";
  EXPECT_THAT(d.inputs, Contains("train_on_inputs: false → true"));
}

TEST_F(DifferenceTest, WritesEnumerationsAsARecipeDoes) {
  const std::string rows = row("a", "b") + row("c", "d");
  const Prepared before = run(rows);
  data.excess_length_strategy = ExcessLength::raise;
  EXPECT_THAT(compare(before, run(rows)).inputs, Contains("excess_length_strategy: drop → raise"));
  EXPECT_EQ(input_text("excess_length_strategy", "3"), "split_turns");
  EXPECT_EQ(input_name("rl"), "kind of rows");
  EXPECT_EQ(input_name("seed"), "seed");
  EXPECT_EQ(input_text("rl", "0"), "text");
  EXPECT_EQ(input_text("rl", "1"), "pairs");
  EXPECT_EQ(input_text("datasets[0].train_on_eos", "2"), "last");
  EXPECT_EQ(input_text("seed", "2"), "2");
  EXPECT_EQ(input_text("rl", "9"), "9");
}

TEST_F(DifferenceTest, NamesARemovedInputAsOneThatChanged) {
  write("prepared/old/manifest.json", R"({"inputs": {"datasets[0] a.jsonl": "1", "rl": "1", "seed": "2"}})");
  EXPECT_EQ(what_changed({{"datasets[0] a.jsonl", "1"}, {"seed", "2"}}, path("prepared")), "kind of rows removed");
}

TEST_F(DifferenceTest, ReportsRowsMovedToTheValidationSplit) {
  const std::string rows = row("a", "b") + row("c", "d");
  data.shuffle_merged_datasets = false;
  const Prepared before = run(rows);
  data.val_set_size = 1;
  const Difference d = compare(before, run(rows));
  EXPECT_EQ(d.same, 1);
  EXPECT_EQ(d.moved, 1);
  EXPECT_EQ(d.first.front().what, "from train to validation");
}

}  // namespace
}  // namespace dml
