// What a resumed run keeps of the run before it, in the same folder or another one; and what it refuses to continue.
#include <gmock/gmock.h>

#include <filesystem>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace fs = std::filesystem;
namespace {

using testing::HasSubstr;
using testing::Not;

class History : public Workshop {
 protected:
  // The highest loss is the best one, so that an early evaluation stays it.
  Keys best_first() const {
    return tiny_lora() + Keys{{"load_best_model_at_end", "true"},
                              {"greater_is_better", "true"},
                              {"eval_steps", "2"},
                              {"save_steps", "2"},
                              {"save_total_limit", "20"},
                              {"max_steps", "8"}};
  }
  Json history_of(const std::string& checkpoint) const {
    return read_json(checkpoint + "/trainer_state.json").at("log_history");
  }
  void expect_refused_change(const std::string& recipe, const Words& more, const Words& says) const {
    Words words{"train", recipe, "--resume", at("out/checkpoint-2")};
    words.insert(words.end(), more.begin(), more.end());
    expect_refused(dml(words), 2, says);
  }
};

TEST_F(History, OfARunThatContinuesElsewhereIsThatOfOneRun) {
  const std::string r = recipe("r.yml", best_first());
  const Ended whole = train(1, r);
  ASSERT_EQ(whole.exit, 0) << whole.err;
  // What another run has left there is not its history.
  const std::string other = at("other");
  fs::create_directory(other);
  write("other/metrics.jsonl", "{\"step\":1,\"loss\":99}\n");
  const Ended e = train(1, r, {"--resume", at("out/checkpoint-6") + "/", "--output_dir", other + "/"});
  ASSERT_EQ(e.exit, 0) << e.err;
  EXPECT_THAT(e.err, HasSubstr("The result has the weights of step ")) << "the test needs a best one before the last";
  EXPECT_THAT(e.err, Not(HasSubstr("//")));
  EXPECT_EQ(results_in(other), results_in(at("out")));
  EXPECT_EQ(numbers_of(other + "/metrics.jsonl"), numbers_of(at("out/metrics.jsonl")));
  EXPECT_EQ(history_of(other + "/checkpoint-8"), history_of(at("out/checkpoint-8")));
  const Json state = read_json(at("out/checkpoint-8/trainer_state.json"));
  EXPECT_EQ(state.at("eval_steps"), 2);
  EXPECT_EQ(state.at("save_steps"), 2);
  const Ended again = train(1, r, {"--resume", "auto", "--output_dir", other});
  ASSERT_EQ(again.exit, 0) << again.err;
  EXPECT_EQ(results_in(other), results_in(at("out"))) << "the best checkpoint is in the first folder";
}

TEST_F(History, DamagedLinesAreRestoredFromTheCheckpoint) {
  const std::string r = recipe("r.yml", tiny_lora() + Keys{{"save_steps", "4"}, {"eval_steps", "2"}});
  ASSERT_EQ(train(1, r).exit, 0);
  const std::vector<Json> whole = json_lines(at("out/metrics.jsonl"));
  const Json history = history_of(at("out/checkpoint-8"));
  std::string text = read_file(at("out/metrics.jsonl"));
  const std::size_t second = text.find('\n') + 1;
  write("out/metrics.jsonl", text.replace(second, text.find('\n', second) - second, "garbage"));
  const Ended e = train(1, r, {"--resume", at("out/checkpoint-4")});
  ASSERT_EQ(e.exit, 0) << e.err;
  EXPECT_THAT(e.err, HasSubstr("metrics.jsonl:2) and is left out; 1 line was restored"));
  EXPECT_EQ(history_of(at("out/checkpoint-8")), history);
  EXPECT_EQ(json_lines(at("out/metrics.jsonl")).size(), whole.size());

  fs::remove(at("out/metrics.jsonl"));
  const Ended missing = train(1, r, {"--resume", at("out/checkpoint-4")});
  ASSERT_EQ(missing.exit, 0) << missing.err;
  EXPECT_THAT(missing.err, HasSubstr("lines were restored from"));
  EXPECT_EQ(history_of(at("out/checkpoint-8")), history);
}

TEST_F(History, EndsWhereWhatDecidesTheResultChanges) {
  write("evals.jsonl", "{\"prompt\": \"Say a.\", \"expected\": \"a\"}\n");
  const std::string r = recipe("r.yml", tiny_lora() + Keys{{"max_steps", "4"},
                                                           {"save_steps", "2"},
                                                           {"evals", "[{name: says, path: " + at("evals.jsonl") +
                                                                         ", checks: [exact], max_new_tokens: 2}]"}});
  ASSERT_EQ(train(1, r).exit, 0);
  expect_refused_change(r, {"--comm_dtype", "bf16"}, {"comm_dtype f32 → bf16"});
  expect_refused_change(r, {"--gradient_tree", "false"}, {"gradient_tree true → false"});
  write("evals.jsonl", "{\"prompt\": \"Say a.\", \"expected\": \"b\"}\n");
  expect_refused_change(r, {}, {"The data of 'evals' changed"});
}

TEST_F(History, HintsWorkWhereTheUserIs) {
  const std::string r = recipe("r.yml", tiny_lora() + Keys{{"output_dir", "runs/a"}, {"save_steps", "2"}});
  fs::create_directory(at("elsewhere"));
  const Ended e = run({dml_path(), "train", r, "--max_time", "0.001"}, {.folder = at("")});
  ASSERT_EQ(e.exit, 75) << e.err;
  EXPECT_THAT(e.err, HasSubstr(" resume runs/a\n"));
  const Ended resumed = run({dml_path(), "resume", at("runs/a"), "--max_time", "0.001"}, {.folder = at("elsewhere")});
  ASSERT_EQ(resumed.exit, 75) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr(" resume " + at("runs/a") + "\n"));
}

}  // namespace
}  // namespace dml::e2e
