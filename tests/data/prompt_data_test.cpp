// Rows that the model answers itself: only their prompts are prepared, and their records are found again for the
// rewards.
#include "core/error.h"
#include "data/loader.h"
#include "data/prepare_fixture.h"
#include "data/schedule.h"

namespace dml {
namespace {

class PromptData : public PrepareTest {
 protected:
  PromptData() {
    data.rows = RowKind::prompts;
    data.completion_len = 200;
  }
  std::string text(const Prepared& p, std::int64_t i) const { return tokenizer.decode(p.train().ids(i)); }
};

TEST_F(PromptData, APromptEndsBeforeTheAnswer) {
  add(write("a.jsonl", row("How many?", "never read")), "alpaca");
  add(write("p.jsonl", "{\"prompt\": \"Q: hi\\nA:\", \"expected\": \"x\"}\n"), "passthrough");
  add(write("q.jsonl", "{\"prompt\": \"How many?\"}\n"), "alpaca");
  data.curriculum_sampling = true;
  const Prepared p = run();
  ASSERT_EQ(p.train().size(), 3);
  EXPECT_TRUE(text(p, 0).ends_with("### Response:\n")) << text(p, 0);
  EXPECT_EQ(text(p, 0).find("never read"), std::string::npos);
  EXPECT_EQ(text(p, 1), "<s>Q: hi\nA:");
  EXPECT_EQ(text(p, 2), text(p, 0));
  for (std::int64_t i = 0; i < 3; ++i)
    for (Token label : p.train().labels(i)) EXPECT_EQ(label, kIgnore);
  for (const std::string& warning : p.report().warnings())
    EXPECT_EQ(warning.find("trained"), std::string::npos) << warning;
}

TEST_F(PromptData, RecordsAreReadAgain) {
  std::string rows;
  for (int i = 0; i < 7; ++i) rows += fmt::format("{{\"prompt\": \"q{}\", \"expected\": {}}}\n\n", i, i);
  add(write("a.jsonl", rows), "passthrough");
  add(write("b.json", "[{\"prompt\": \"x\", \"expected\": 8}, {\"prompt\": \"y\", \"expected\": 9}]"), "passthrough");
  add(write("c.csv", "prompt;expected\nz;\"10\"\n"), "passthrough");
  const Prepared p = run();
  std::vector<std::int32_t> stored;
  for (std::int64_t i = 0; i < p.train().size(); ++i) stored.push_back(p.train().stored(i));
  const std::vector<Json> records = p.records(stored);
  ASSERT_EQ(records.size(), 10u);
  for (std::size_t i = 0; i < records.size(); ++i)
    EXPECT_EQ("<s>" + records[i]["prompt"].get<std::string>(), text(p, static_cast<std::int64_t>(i)));
  write("a.jsonl", "{\"prompt\": \"q0\"}\n");
  EXPECT_THROW(p.records(stored), UserError);
}

TEST_F(PromptData, PromptsLeaveRoomForTheCompletion) {
  add(write("a.jsonl", fmt::format("{{\"prompt\": \"{}\"}}\n{{\"prompt\": \"short\"}}\n", std::string(220, 'x'))),
      "passthrough");
  const Prepared p = run();
  ASSERT_EQ(p.train().size(), 1);
  EXPECT_EQ(text(p, 0), "<s>short");
  EXPECT_EQ(p.report().datasets[0].dropped.at("longer than sequence_len less trl.max_completion_length"), 1);
  data.excess_length_strategy = ExcessLength::raise;
  try {
    run();
    ADD_FAILURE();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what())
                  .find(fmt::format(" tokens, sequence_len less trl.max_completion_length is {} ",
                                    data.sequence_len - data.completion_len)),
              std::string::npos)
        << error.what();
  }
}

TEST_F(PromptData, AMicroBatchHoldsCompletionsOfAStep) {
  std::string rows;
  for (int i = 0; i < 6; ++i) rows += fmt::format("{{\"prompt\": \"q{}\"}}\n", i);
  add(write("a.jsonl", rows), "passthrough");
  data.curriculum_sampling = true;
  data.sequence_len = 450;  // two completions a micro-batch
  const Prepared p = run();
  TrainSection train;
  train.micro_batch_size = 2;
  train.batch_size = 8;
  TrlSettings trl;
  trl.num_generations = 4;
  trl.max_completion_length = 200;
  const Schedule schedule(p.train().lengths(), train_schedule(data, train, 1, &trl));
  EXPECT_EQ(schedule.steps(), 3);
  Loader loader(p.train(), schedule);
  const PackedBatch batch = loader.load(1, 3);  // step 1 asks rows 2 and 3
  EXPECT_EQ(batch.first_group, 6);
  ASSERT_EQ(batch.documents(), 2);
  EXPECT_EQ(tokenizer.decode(batch.tokens.first(static_cast<std::size_t>(batch.starts[1]))), "<s>q3");
  EXPECT_EQ(batch.trained(), 0);
  trl.num_generations = 3;
  EXPECT_THROW(train_schedule(data, train, 1, &trl), UserError);
}

}  // namespace
}  // namespace dml
