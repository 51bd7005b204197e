// Rows and documents longer than sequence_len.
#include <gmock/gmock.h>

#include "data/prepare_fixture.h"

namespace dml {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LongRows : public PrepareTest {};

// Lines of a text file are not documents: a file is one document and continues from row to row.
TEST_F(LongRows, TakesATextFileOfPretrainingAsOneDocument) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += fmt::format("This is line {}.\n", i);
  DatasetEntry entry;
  entry.path = write("book.txt", text);
  data.pretraining_dataset = {entry};
  data.shuffle_merged_datasets = false;
  Prepared p = run();
  EXPECT_EQ(p.report().datasets[0].rows, 1);
  std::string all;
  for (std::int64_t i = 0; i < p.train().size(); ++i) all += tokenizer.decode(p.train().ids(i));
  text.pop_back();
  EXPECT_EQ(all, "<s>" + text + "</s>");
  data.pretraining_dataset[0].ds_type = "text";
  EXPECT_EQ(run().report().datasets[0].rows, 100);
}

TEST_F(LongRows, HandlesLongRowsByTheirStrategy) {
  std::string text = rows(3) + "{\"instruction\": \"a\", \"output\": \"" + std::string(500, 'x') + "\"}\n";
  add(write("a.jsonl", text), "alpaca");
  data.excess_length_strategy = ExcessLength::raise;
  EXPECT_THAT(error_of<UserError>([&] { run(); }), HasSubstr("a.jsonl:4: "));
  data.excess_length_strategy = ExcessLength::truncate;
  Prepared p = run();
  EXPECT_EQ(p.train().size(), 4);
  EXPECT_EQ(p.report().datasets[0].truncated, 1);
  EXPECT_EQ(p.report().datasets[0].longest, 400);
  EXPECT_THAT(p.report().warnings(), ::testing::Contains(HasSubstr("are truncated")));
}

TEST_F(LongRows, SplitsLongConversationsAfterTrainedTurns) {
  std::string ids, labels;
  for (int turn = 0; turn < 5; ++turn)
    for (int i = 0; i < 100; ++i) {
      ids += fmt::format("{}{}", ids.empty() ? "" : ",", 20 + turn);
      labels += fmt::format("{}{}", labels.empty() ? "" : ",", i < 50 ? -100 : 20 + turn);
    }
  add(write("a.jsonl", "{\"input_ids\": [" + ids + "], \"labels\": [" + labels + "]}\n"), "");
  data.sequence_len = 250;
  data.excess_length_strategy = ExcessLength::split_turns;
  data.shuffle_merged_datasets = false;
  Prepared p = run();
  EXPECT_THAT(p.train().lengths(), ElementsAre(200, 200, 100));
  EXPECT_EQ(p.train().ids(1).front(), 22);
}

// A turn that does not fit is left out, not those behind it; text behind the last trained token is no loss.
TEST_F(LongRows, SplitsAroundTurnsThatAreTooLong) {
  std::vector<int> ids, labels;
  const auto turn = [&](int question, int answer, int token) {
    for (int i = 0; i < question + answer; ++i) {
      ids.push_back(token);
      labels.push_back(i < question ? kIgnore : token);
    }
  };
  turn(3, 5, 20);
  turn(4, 90, 21);
  turn(3, 40, 22);
  turn(3, 50, 23);
  turn(10, 0, 24);
  add(write("a.jsonl",
            fmt::format("{{\"input_ids\": [{}], \"labels\": [{}]}}\n", fmt::join(ids, ", "), fmt::join(labels, ", "))),
      "");
  data.sequence_len = 60;
  data.excess_length_strategy = ExcessLength::split_turns;
  data.shuffle_merged_datasets = false;
  Prepared p = run();
  EXPECT_THAT(p.train().lengths(), ElementsAre(8, 43, 53));
  EXPECT_EQ(p.report().datasets[0].truncated, 1);
}

TEST_F(LongRows, SplittingAfterAllTrainedTurnsLosesNothing) {
  add(write("a.jsonl", "{\"input_ids\": [5, 6, 7, 5, 6, 7, 5], \"labels\": [-100, 6, 7, -100, 6, 7, -100]}\n"), "");
  data.sequence_len = 4;
  data.excess_length_strategy = ExcessLength::split_turns;
  data.shuffle_merged_datasets = false;
  Prepared p = run();
  EXPECT_THAT(p.train().lengths(), ElementsAre(3, 3));
  EXPECT_EQ(p.report().datasets[0].truncated, 0);
}

TEST_F(LongRows, CutsDocumentsWithoutLoss) {
  std::string text(1000, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 26);
  add(write("a.jsonl", "{\"text\": \"" + text + "\"}\n"), "completion");
  data.shuffle_merged_datasets = false;
  Prepared p = run();
  std::string all;
  for (std::int64_t i = 0; i < p.train().size(); ++i) all += tokenizer.decode(p.train().ids(i));
  EXPECT_EQ(all, "<s>" + text + "</s>");
  EXPECT_EQ(p.report().datasets[0].cut_documents, 1);
  EXPECT_EQ(p.report().datasets[0].ends_expected, 1);
}

}  // namespace
}  // namespace dml
