// What `dml score` writes can be read back and put into order.
#include "data/scores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/files.h"
#include "temporary_folder.h"

namespace dml {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Scores, AreReadBack) {
  testing_tools::TemporaryFolder folder;
  const std::vector<RowScore> scores{{"a.jsonl:1", 20, 10, 3.5, 2.25}, {"a.jsonl:2", 30, 5, 1.5, {}}};
  write_file(folder / "scores.jsonl", score_line(0, scores[0]) + "\n" + score_line(1, scores[1]) + "\n");
  const std::vector<RowScore> read = read_scores(folder / "scores.jsonl");
  ASSERT_EQ(read.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read[i].place, scores[i].place);
    EXPECT_EQ(read[i].tokens, scores[i].tokens);
    EXPECT_EQ(read[i].trained_tokens, scores[i].trained_tokens);
    EXPECT_EQ(read[i].base_loss, scores[i].base_loss);
    EXPECT_EQ(read[i].loss, scores[i].loss);
  }
}

TEST(Scores, AreSorted) {
  const std::vector<RowScore> scores{
      {"a:1", 4, 1, 2, 1.0}, {"a:2", 3, 2, 9, 4.0}, {"a:3", 2, 3, 4, 4.0}, {"a:4", 1, 4, 3, 2.0}};
  EXPECT_THAT(sorted_scores(scores, "loss", false), ElementsAre(1, 2, 3, 0));
  EXPECT_THAT(sorted_scores(scores, "loss", true), ElementsAre(0, 3, 1, 2));
  EXPECT_THAT(sorted_scores(scores, "difference", false), ElementsAre(1, 0, 3, 2));
  EXPECT_THAT(sorted_scores(scores, "base_loss", true), ElementsAre(0, 3, 2, 1));
  EXPECT_THAT(sorted_scores(scores, "trained_tokens", false), ElementsAre(3, 2, 1, 0));
  EXPECT_THAT(sorted_scores(scores, "row", false), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(
      [&] {
        sorted_scores({{"a:1", 4, 1, 2}}, "difference", false);
      },
      testing::ThrowsMessage<UserError>(HasSubstr("these scores have no 'difference'")));
  EXPECT_THAT([&] { sorted_scores(scores, "los", false); },
              testing::ThrowsMessage<UserError>(HasSubstr("did you mean 'loss'?")));
  EXPECT_THAT([&] { sorted_scores(scores, "foo", false); },
              testing::ThrowsMessage<UserError>("there is no score 'foo'; choose from loss, perplexity, base_loss, "
                                                "difference, tokens, trained_tokens, row"));
}

}  // namespace
}  // namespace dml
