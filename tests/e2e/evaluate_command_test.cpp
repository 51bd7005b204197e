// dml evaluate: several models in one call, and the same losses as in training.
#include <algorithm>

#include "e2e/commands.h"

namespace dml::e2e {
namespace {

TEST_F(Commands, EvaluateTakesSeveralAdapters) {
  train_adapter();
  std::string second = recipe("second.yml", tiny_lora() + Keys{{"output_dir", at("second")}, {"max_steps", "2"}});
  ASSERT_EQ(train(1, second).exit, 0);
  Words both{"evaluate", at("lora.yml"), "--json", "--adapter", at("out"), "--adapter", at("second")};
  EXPECT_EQ(json_lines(write("both.jsonl", out_of(both))).size(), 3u);
  EXPECT_EQ(loss_of(both, 1), loss_of({"evaluate", at("lora.yml"), "--json"}, 1));
  EXPECT_EQ(loss_of(both, 2), loss_of({"evaluate", second, "--json"}, 1));
  const Words alone{"evaluate", at("lora.yml"), "--json", "--adapter", "none"};
  EXPECT_EQ(loss_of(alone, 0), loss_of(both, 0));
  EXPECT_EQ(std::ranges::count(out_of(alone), '\n'), 1);
  EXPECT_NE(loss_of(both, 1), loss_of(both, 2));
}

TEST_F(Commands, EvaluateComparesAWholeModelWithItsBase) {
  const std::string r =
      recipe("whole.yml", Keys{{"base_model", base_directory()}, {"max_steps", "2"}, {"output_dir", at("whole")}});
  ASSERT_EQ(train(1, r).exit, 0);
  const Words trained{"evaluate", r, "--json"}, base{"evaluate", r, "--json", "--base-model", base_directory()};
  EXPECT_EQ(json_lines(write("both.jsonl", out_of(trained))).size(), 2u);
  EXPECT_NE(loss_of(trained, 0), loss_of(trained, 1));
  EXPECT_EQ(json_lines(write("one.jsonl", out_of(base))).size(), 1u);
  EXPECT_EQ(loss_of(base, 0), loss_of(trained, 0));
  // The weights of the given model, also where those of the recipe are random.
  const std::string random = recipe(
      "random.yml",
      Keys{{"base_model", base_directory()}, {"reinit_weights", "true"}, {"model_config", "{num_hidden_layers: 1}"}});
  EXPECT_EQ(loss_of({"evaluate", random, "--json", "--base-model", base_directory()}, 0), loss_of(trained, 0));
}

// The base has no rows for them: they begin as in training.
TEST_F(Commands, EvaluateAndScoreMeasureTextsWithNewTokens) {
  std::string rows;
  for (int i = 0; i < 12; ++i)
    rows += fmt::format("{{\"instruction\": \"say <new> {0}\", \"output\": \"<new> {0}\"}}\n", i);
  const Keys data{{"datasets", fmt::format("[{{path: {}, type: alpaca}}]", write("new.jsonl", rows))},
                  {"tokens", "[\"<new>\"]"},
                  {"evals",
                   "[{name: e, raw: true, prompts: [{prompt: a <new>, expected: b}], max_new_tokens: 1, "
                   "checks: [contains]}]"},
                  {"val_set_size", "4"},
                  {"max_steps", "2"}};
  for (const bool full : {false, true}) {
    Keys keys = (full ? Keys{{"base_model", base_directory()}}
                      : tiny_lora() + Keys{{"lora_modules_to_save", "[embed_tokens, lm_head]"}}) +
                data + Keys{{"output_dir", at(full ? "full" : "lora")}};
    const std::string path = recipe(full ? "full.yml" : "lora.yml", keys);
    ASSERT_EQ(train(1, path).exit, 0);
    std::vector<Json> log = json_lines(keys.at("output_dir") + "/metrics.jsonl");
    const Json first = *std::ranges::find_if(log, [](const Json& line) { return line.value("event", "") == "eval"; });
    const Words words{"evaluate", path, "--json"};
    EXPECT_EQ(loss_of(words, 0), first.at("loss").get<double>()) << "before the first step";
    EXPECT_NE(loss_of(words, 0), loss_of(words, 1));
    EXPECT_EQ(dml({"score", path}).exit, 0);
    if (full) continue;
    EXPECT_EQ(loss_of({"evaluate", path, "--json", "--adapter", "none"}, 0), loss_of(words, 0));
    EXPECT_EQ(dml({"score", path, "--adapter", "none"}).exit, 0);
  }
}

TEST_F(Commands, ScoreOfAModelFromScratchHasNoBase) {
  const Keys steps{{"max_steps", "2"}};
  for (const bool scratch : {true, false}) {
    const Keys model = scratch ? tiny_model() : Keys{{"base_model", base_directory()}};
    const std::string scores = at(scratch ? "scratch.jsonl" : "full.jsonl");
    const std::string path = recipe("r.yml", model + steps + Keys{{"output_dir", at(scratch ? "scratch" : "full")}});
    ASSERT_EQ(train(1, path).exit, 0);
    const Ended e = dml({"score", path, "--output", scores});
    ASSERT_EQ(e.exit, 0) << e.err;
    EXPECT_EQ(e.out.find("base loss") == std::string::npos, scratch) << e.out;
    for (const Json& row : json_lines(scores)) {
      EXPECT_TRUE(row.contains("loss"));
      EXPECT_EQ(row.contains("base_loss"), !scratch);
      EXPECT_EQ(row.contains("difference"), !scratch);
    }
  }
}

TEST_F(Commands, EvaluateMatchesTheLastEvaluationOfTraining) {
  train_adapter();
  Json last = json_lines(at("out/metrics.jsonl")).back();
  ASSERT_EQ(last.at("event"), "eval");
  EXPECT_EQ(loss_of({"evaluate", at("lora.yml"), "--json"}, 1), last.at("loss").get<double>());
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there";
  Ended two = run(on_ranks(2, {"evaluate", at("lora.yml"), "--json"}));
  EXPECT_EQ(two.out, out_of({"evaluate", at("lora.yml"), "--json"}));
}

TEST_F(Commands, PackedAndUnpackedRowsHaveTheSameLoss) {
  alpaca("rows.jsonl", 120);
  train_adapter();
  Keys keys = tiny_lora() + Keys{{"val_set_size", "60"}};
  double plain = loss_of({"evaluate", recipe("plain.yml", keys), "--json"}, 1);
  double packed = loss_of({"evaluate", recipe("packed.yml", keys + Keys{{"sample_packing", "true"}}), "--json"}, 1);
  double together = loss_of({"evaluate", recipe("together.yml", keys + Keys{{"eval_batch_size", "8"}}), "--json"}, 1);
  EXPECT_NEAR(packed / plain, 1, 1e-5);
  EXPECT_NEAR(together / plain, 1, 1e-5);
}

}  // namespace
}  // namespace dml::e2e
