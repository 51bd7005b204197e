#include "data/inspect.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "data/fixtures.h"

namespace dml {
namespace {

using ::testing::ElementsAre;

class Inspect : public ::testing::Test {
 protected:
  Token b(char c) { return 16 + static_cast<unsigned char>(c); }
  std::vector<Token> ids{1, b('a'), b('\n'), b('\x1b'), b('b'), 2},
      labels{kIgnore, kIgnore, kIgnore, kIgnore, b('b'), 2};
  std::vector<std::int64_t> offsets{0, 6};
  std::vector<std::int32_t> chosen{0};
  Examples examples{ids, labels, offsets, chosen};
  ByteTokenizer tokenizer;
};

TEST_F(Inspect, MarksTrainedSpansWithoutColor) {
  RowView row = view_row(examples, 0, tokenizer, "row 0");
  EXPECT_EQ(render_text(row, {.color = false}), "row 0: 6 tokens, 2 trained\n<s>a⏎\n\\x1b⟦b</s>⟧\n");
}

TEST_F(Inspect, TheFirstTokenOfADocumentIsNeverTrained) {
  labels = ids;
  const RowView row = view_row(examples, 0, tokenizer, "row 0");
  EXPECT_EQ(render_text(row, {.color = false}), "row 0: 6 tokens, 5 trained\n<s>⟦a⏎\n\\x1bb</s>⟧\n");
  EXPECT_EQ(render_json(row)["tokens"][0]["label"], kIgnore);
}

TEST_F(Inspect, ColorsTrainedMaskedAndSpecialTokens) {
  std::string text = render_text(view_row(examples, 0, tokenizer, "row 0"), {.color = true});
  EXPECT_EQ(text,
            "row 0: 6 tokens, 2 "
            "trained\n\033[2m\033[7m<s>\033[0m\033[2ma\033[0m\033[2m⏎\033[0m\n\033[2m\\x1b\033[0m\033[32mb\033[0m"
            "\033[32m\033[7m</s>\033[0m\n");
}

TEST_F(Inspect, ShowsIdsAndLabels) {
  EXPECT_EQ(
      render_text(view_row(examples, 0, tokenizer, "row 0"), {.color = false, .ids = true}),
      "row 0: 6 tokens, 2 trained\n<s>(-100, 1) a(-100, 113) ⏎(-100, 26) \\x1b(-100, 43) ⟦b(114, 114) </s>(2, 2)⟧\n");
}

TEST(ASchedule, IsDescribedByWhatItsStepsHave) {
  ScheduleOptions o;
  o.micro_batch_size = 2;
  o.micro_batches_per_step = 2;
  const std::vector<std::int32_t> ten(10, 4);
  o.num_epochs = 1.5;
  EXPECT_THAT(describe(Schedule(ten, o)), ElementsAre("5 steps in 1.5 epochs, up to 2 micro-batches per step",
                                                      "each micro-batch: 2 examples, at most 8 tokens"));
  o.num_epochs = 0.3;
  EXPECT_EQ(describe(Schedule(ten, o))[0], "1 step in 0.3 epochs, 2 micro-batches per step");
  o.num_epochs = 3;
  o.micro_batches_per_step = 1000;
  EXPECT_EQ(describe(Schedule(ten, o))[0], "3 steps in 3 epochs, 5 micro-batches per step");
  o.micro_batch_size = 4095;
  EXPECT_THAT(describe(Schedule(ten, o)), ElementsAre("3 steps in 3 epochs, 1 micro-batch per step",
                                                      "each micro-batch: 10 examples, at most 40 tokens"));
  o.micro_batch_size = 2;
  o.micro_batches_per_step = 2;
  o.max_steps = 4;
  EXPECT_EQ(describe(Schedule(ten, o))[0], "4 steps in 1.4 epochs, up to 2 micro-batches per step");
  o.max_steps = 6;
  EXPECT_EQ(describe(Schedule(ten, o))[0], "6 steps in 2 epochs, up to 2 micro-batches per step");
}

TEST(ASchedule, CountsThePackedRowsThatAMicroBatchHas) {
  ScheduleOptions o;
  o.packing = true;
  o.sequence_len = 8;
  o.micro_batch_size = 1000;
  const Schedule schedule(std::vector<std::int32_t>(6, 4), o);
  EXPECT_EQ(schedule.packed_rows(), 3);
  EXPECT_THAT(describe(schedule), ElementsAre("1 step in 1 epoch, 1 micro-batch per step",
                                              "each micro-batch: 3 packed rows of 8 tokens, at most 24 tokens",
                                              "packed rows are 100.0 % full"));
}

TEST_F(Inspect, FindsRowsByTheirText) {
  EXPECT_THAT(find_rows(examples, tokenizer, "a\n", 10), ElementsAre(0));
  EXPECT_THAT(find_rows(examples, tokenizer, "zz", 10), ElementsAre());
  EXPECT_EQ(error_of<UserError>([&] { view_row(examples, 1, tokenizer, ""); }),
            "there is no row 1: they go from 0 to 0");
}

}  // namespace
}  // namespace dml
