// Rows that are left out as duplicates or by their scores.
#include <gmock/gmock.h>

#include "data/example.h"
#include "data/prepare_fixture.h"

namespace dml {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DroppedRows : public PrepareTest {};

TEST_F(DroppedRows, RemovesDuplicatesAndWarnsOfLeaks) {
  std::string file = write("a.jsonl", rows(30) + rows(10));
  add(file, "alpaca");
  DatasetEntry test;
  test.path = write("t.jsonl", rows(5));
  test.type.name = "alpaca";
  data.test_datasets.push_back(test);
  Prepared p = run();
  EXPECT_EQ(p.train().size(), 40);
  EXPECT_EQ(p.report().leaked, 5);
  EXPECT_EQ(p.report().duplicates, 10) << "within the training data; the test data are others";
  EXPECT_THAT(p.report().warnings(),
              ::testing::Contains(HasSubstr("5 validation examples are also in the training data, so the validation "
                                            "loss will be too low; set dataset_exact_deduplication: true to remove "
                                            "them from the training data")));
  data.dataset_exact_deduplication = true;
  p = run();
  EXPECT_EQ(p.train().size(), 25);
  EXPECT_EQ(p.validation().size(), 5);
  EXPECT_EQ(p.report().leaked, 0);
  EXPECT_EQ(p.report().datasets[1].dropped.at("duplicate"), 15);

  data.datasets.push_back(data.datasets.front());  // nothing new at all
  p = run();
  EXPECT_EQ(p.train().size(), 25);
  EXPECT_EQ(p.report().datasets[2].examples, 0);
  EXPECT_EQ(p.report().datasets[2].turns, 0);
  EXPECT_THAT(p.report().warnings(), ::testing::Contains(HasSubstr("100.0 % of the rows were dropped")));
}

// The advice must not be one that leaves nothing to train on.
TEST_F(DroppedRows, TestDataThatAreTheTrainingDataAreNoDuplicates) {
  std::string file = write("a.jsonl", rows(20));
  add(file, "alpaca");
  data.datasets[0].weight = 2;  // a repeated example is no duplicate either
  data.test_datasets.push_back(data.datasets[0]);
  data.test_datasets[0].weight = 1;
  EXPECT_EQ(run().report().duplicates, 0);
  EXPECT_EQ(run().report().leaked, 20);
  EXPECT_THAT(run().report().warnings(),
              ElementsAre(HasSubstr(
                  "every training example is one of them: give test_datasets other rows, or use val_set_size")));
  data.dataset_exact_deduplication = true;
  EXPECT_THAT(error_of<UserError>([&] { run(); }),
              HasSubstr("no examples are left to train on: 20 dropped (20 duplicate); the first: " + file + ":1 (of " +
                        file + ":1 in test_datasets)"));
}

TEST_F(DroppedRows, ADuplicateThatIsSplitOffIsALeak) {
  add(write("a.jsonl", rows(10) + rows(1)), "alpaca");
  data.val_set_size = 1;  // the last row
  data.shuffle_merged_datasets = false;
  const Prepared p = run();
  EXPECT_EQ(p.report().duplicates, 0);
  EXPECT_EQ(p.report().leaked, 1);
  EXPECT_THAT(p.report().warnings(), Contains(HasSubstr("set dataset_exact_deduplication: true to keep one of each")));
}

TEST_F(DroppedRows, RemovesNearDuplicates) {
  std::string story(300, ' ');
  for (std::uint32_t i = 0, state = 1; i < story.size(); ++i)
    story[i] = static_cast<char>('a' + (state = state * 1103515245u + 12345u) / 65536 % 26);
  auto row = [](const std::string& text) { return "{\"text\": \"" + text + "\"}\n"; };
  std::string alike = story, other = story.substr(150) + std::string(150, 'q');
  alike[100] = 'Z';
  add(write("a.jsonl", row(story) + row(alike) + row(other)), "completion");
  data.dataset_near_deduplication = true;
  data.shuffle_merged_datasets = false;
  Prepared p = run();
  EXPECT_EQ(p.train().size(), 2);
  EXPECT_EQ(p.report().datasets[0].dropped.at("near duplicate"), 1);
  EXPECT_EQ(p.report().datasets[0].first_dropped.at(0).place, path("a.jsonl") + ":2");
  EXPECT_EQ(p.report().datasets[0].first_dropped.at(0).detail, "of " + path("a.jsonl") + ":1");  // its twin
}

TEST_F(DroppedRows, DropsRowsByTheirScores) {
  add(write("a.jsonl", rows(6)), "alpaca");
  std::string scores;
  for (int line = 1; line <= 5; ++line)
    scores += fmt::format("{{\"place\": \"{}:{}\", \"loss\": {}, \"base_loss\": 9}}\n", path("a.jsonl"), line, line);
  data.shuffle_merged_datasets = false;
  auto lines = [&] {
    std::vector<std::string> out;
    Prepared p = run();
    for (std::int64_t i = 0; i < p.train().size(); ++i) {
      const std::string place = p.place(p.train().stored(i));
      out.push_back(place.substr(place.rfind(':') + 1));
    }
    return out;
  };
  data.scores = {write("scores.jsonl", scores), 4.5, 2.0, {path("a.jsonl") + ":3"}};
  EXPECT_THAT(lines(), ElementsAre("2", "4", "6"));  // row 6 has no score
  const std::vector<DroppedRow> dropped = run().dropped(9);
  ASSERT_EQ(dropped.size(), 3u);
  EXPECT_EQ(dropped[0].reason, "excluded by scores");
  EXPECT_EQ(dropped[0].detail, "loss 1.0000 is below min_loss 2");
  EXPECT_EQ(dropped[1].detail, "in scores.drop");
  EXPECT_EQ(dropped[2].detail, "loss 5.0000 is above max_loss 4.5");
  data.scores = {write("scores.jsonl", "{\"place\": \"other.jsonl:1\", \"loss\": 1}\n"), 4.5, {}, {}};
  EXPECT_THAT([&] { run(); }, testing::ThrowsMessage<UserError>(HasSubstr("none of the places is in the data")));
  const Prepared whole = [&] {
    data.scores = {};
    return run();
  }();
  auto scored = [&](std::int64_t i, std::int64_t of) {
    return fmt::format("{{\"place\": \"{}\", \"digest\": \"{}\", \"loss\": 1}}\n", whole.place(whole.train().stored(i)),
                       digest_of_example(whole.train().ids(of), whole.train().labels(of)));
  };
  data.scores = {write("scores.jsonl", scored(0, 0) + scored(1, 1)), {}, 2.0, {}};
  EXPECT_EQ(run().train().size(), 4);
  data.scores.path = write("scores.jsonl", scored(0, 0) + scored(1, 2));
  EXPECT_THAT([&] { run(); },
              testing::ThrowsMessage<UserError>(HasSubstr(
                  "changed since `dml score` wrote this file (examples: 1, the first at " + path("a.jsonl") + ":2)")));
  data.scores.path = write("scores.jsonl", "{\"place\": 1}\n");
  EXPECT_THAT([&] { run(); },
              testing::ThrowsMessage<UserError>(HasSubstr("scores.jsonl:1: not a line of `dml score`")));
}

TEST_F(DroppedRows, JudgesEachPieceOfADocumentByItsOwnScore) {
  add(write("a.jsonl", "{\"text\": \"" + std::string(600, 'x') + "\"}\n"), "completion");
  data.shuffle_merged_datasets = false;
  const Prepared whole = run();
  const std::vector<std::int32_t> lengths = whole.train().lengths();
  ASSERT_GE(lengths.size(), 2u);
  const std::int64_t last = whole.train().size() - 1;
  auto scores = [&](bool digests) {
    std::string out;
    for (std::int64_t i = 0; i <= last; ++i)
      out += fmt::format(R"({{"place": "{}:1", "digest": "{}", "trained_tokens": {}, "loss": {}}})", path("a.jsonl"),
                         digests ? digest_of_example(whole.train().ids(i), whole.train().labels(i)) : "",
                         i == last ? 1 : 99, i == last ? 9 : 1) +
             "\n";
    return out;
  };
  data.scores = {write("scores.jsonl", scores(true)), 5, {}, {}};
  Prepared p = run();
  EXPECT_THAT(p.train().lengths(), testing::ElementsAreArray(lengths.begin(), lengths.end() - 1));
  ASSERT_EQ(p.dropped(9).size(), 1u);
  EXPECT_EQ(p.dropped(9)[0].detail, "loss 9.0000 is above max_loss 5");
  // Without digests nothing tells the pieces apart: the mean over the row's trained tokens counts.
  data.scores = {write("scores.jsonl", scores(false)), 5, {}, {}};
  EXPECT_EQ(run().train().size(), last + 1);
  data.scores.min_loss = 2;
  const double mean = static_cast<double>(99 * last + 9) / static_cast<double>(99 * last + 1);
  EXPECT_THAT([&] { run(); }, testing::ThrowsMessage<UserError>(testing::AllOf(
                                  HasSubstr(fmt::format("{} excluded by scores", last + 1)),
                                  HasSubstr(fmt::format("the row's mean loss {:.4f} is below min_loss 2", mean)))));
}

TEST_F(DroppedRows, KeepsRowsOfEqualTokensThatDifferInWeight) {
  const std::string text = R"({"text": "once upon a time", "w": )";
  add(write("a.jsonl", text + "1}\n" + text + "2}\n" + text + "1}\n"), "completion");
  data.datasets[0].field_weight = "w";
  data.dataset_exact_deduplication = true;
  EXPECT_EQ(run().train().size(), 2);
}

}  // namespace
}  // namespace dml
