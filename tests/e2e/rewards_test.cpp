// Whole runs on rewards: that they learn, that bits depend only on the recipe, and what is rejected.
#include <array>
#include <filesystem>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace fs = std::filesystem;
namespace {

class RewardRuns : public Workshop {
 protected:
  std::string questions(int rows) const {
    std::string text;
    for (int i = 0; i < rows; ++i)
      text += fmt::format("{{\"prompt\": \"Tell me about number {}.\", \"expected\": \"e\"}}\n", i);
    return write("questions.jsonl", text);
  }
  // Two steps of four prompts with four completions each; a short completion is worth more.
  Keys rewards(const std::string& list, const Keys& trl = {}) const {
    Keys all = Keys{{"num_generations", "4"}, {"max_completion_length", "12"}} + trl;
    std::string table;
    for (auto& [key, value] : all) table += fmt::format("{}{}: {}", table.empty() ? "" : ", ", key, value);
    return tiny_lora() + Keys{{"rl", "grpo"},
                              {"rewards", list},
                              {"trl", "{" + table + "}"},
                              {"datasets", fmt::format("[{{path: {}, type: alpaca}}]", questions(8))},
                              {"micro_batch_size", "4"},
                              {"batch_size", "16"},
                              {"val_set_size", ""},
                              {"eval_steps", ""},
                              {"sequence_len", "128"},
                              {"learning_rate", "1e-2"},
                              {"warmup_steps", "0"},
                              {"weight_decay", "0"},
                              {"neftune_noise_alpha", ""},
                              {"generate_samples", ""}};
  }
  std::vector<Json> steps(const std::string& folder) const {
    std::vector<Json> out;
    for (Json& line : json_lines(folder + "/metrics.jsonl"))
      if (!line.contains("event")) out.push_back(line);
    return out;
  }
  struct Outcome {
    std::map<std::string, std::string> files;
    std::vector<double> losses;
    bool operator==(const Outcome&) const = default;
  };
  Outcome trained(const std::string& name, const Keys& keys, int ranks = 1, Words more = {}) {
    const std::string out = at(name);
    const Ended e = train(ranks, recipe(name + ".yml", keys + Keys{{"output_dir", out}}), more);
    EXPECT_EQ(e.exit, 0) << e.err;
    Outcome found{results_in(out), {}};
    for (const Json& step : steps(out)) found.losses.push_back(step["loss"]);
    return found;
  }
};

// A model that names any of four numbers learns which one is rewarded.
TEST_F(RewardRuns, ATinyModelLearnsWhatIsRewarded) {
  std::string picks, asks;
  for (int i = 0; i < 40; ++i)
    picks += fmt::format("{{\"instruction\": \"Pick a number.\", \"output\": \"{}\"}}\n",
                         std::array{"one", "two", "three", "four"}[static_cast<std::size_t>(i % 4)]);
  for (int i = 0; i < 4; ++i) asks += "{\"prompt\": \"Pick a number.\", \"expected\": \"three\"}\n";
  const auto alpaca = [](const std::string& path) { return fmt::format("[{{path: {}, type: alpaca}}]", path); };
  const Keys both{{"val_set_size", ""}, {"eval_steps", ""}, {"weight_decay", "0"}, {"save_strategy", "no"}};
  const Ended made = train(1, recipe("pupil.yml", tiny_model() + both +
                                                      Keys{{"datasets", alpaca(write("picks.jsonl", picks))},
                                                           {"micro_batch_size", "8"},
                                                           {"batch_size", "8"},
                                                           {"max_steps", "60"},
                                                           {"learning_rate", "1e-2"},
                                                           {"output_dir", at("pupil")}}));
  ASSERT_EQ(made.exit, 0) << made.err;
  trained("run", both + Keys{{"base_model", at("pupil")},
                             {"rl", "grpo"},
                             {"rewards", "[exact]"},
                             {"trl", "{num_generations: 4, max_completion_length: 6}"},
                             {"datasets", alpaca(write("asks.jsonl", asks))},
                             {"micro_batch_size", "4"},
                             {"batch_size", "16"},
                             {"num_epochs", "40"},
                             {"learning_rate", "2e-3"},
                             {"lr_scheduler", "constant"}});
  const auto log = steps(at("run"));
  ASSERT_EQ(log.size(), 40u);
  double before = 0, after = 0;
  for (std::size_t i = 0; i < 4; ++i)
    before += log[i]["reward"].get<double>() / 4, after += log[36 + i]["reward"].get<double>() / 4;
  EXPECT_LT(before, .5);
  EXPECT_GT(after, .75);
  for (const char* name : {"reward", "reward_std", "frac_reward_zero_std", "rewards/exact/mean", "rewards/exact/std",
                           "completions/mean_length", "completions/clipped_ratio", "entropy", "clip_ratio/region_mean",
                           "time/generation", "generation/tok_s"})
    EXPECT_TRUE(log[0].contains(name)) << name;
  EXPECT_FALSE(log[0].contains("kl"));
  EXPECT_GT(log[0]["trained_tokens"].get<int>(), 16);
}

TEST_F(RewardRuns, BitsDoNotDependOnRanks) {
  const Keys keys =
      rewards("[{regex: '[ae]', weight: 0.5}, {length: 20}]", {{"beta", "0.05"}, {"num_iterations", "2"}});
  const Outcome one = trained("one", keys);
  ASSERT_EQ(one.losses.size(), 4u);
  EXPECT_NEAR(steps(at("one"))[0]["kl"].get<double>(), 0, 1e-9);
  EXPECT_GT(steps(at("one"))[3]["kl"].get<double>(), 0);
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there: ranks were not compared";
  EXPECT_TRUE(one == trained("two", keys, 2));
  EXPECT_TRUE(one == trained("four", keys + Keys{{"distribution", "zero3"}}, 4));
}

// Also where initial values of the adapter change the base, or B is not zero.
TEST_F(RewardRuns, TheReferenceIsTheModelThatTheRunStartsFrom) {
  for (const char* init : {"loftq", "pissa", "false"}) {
    trained(init, rewards("[{length: 20}]", {{"beta", "0.05"}}) + Keys{{"peft_init_lora_weights", init}});
    const auto log = steps(at(init));
    ASSERT_EQ(log.size(), 2u);
    EXPECT_NEAR(log[0]["kl"].get<double>(), 0, 1e-9) << init;
    EXPECT_GT(log[1]["kl"].get<double>(), 0) << init;
  }
}

// Values in bfloat16 start from a rounded base, and frozen_storage does not apply to what is trained.
TEST_F(RewardRuns, TheReferenceIsTheFullModelThatTheRunStartsFrom) {
  for (const char* key : {"bf16_weights", "frozen_storage"}) {
    trained(key, rewards("[{length: 20}]", {{"beta", "0.05"}}) +
                     Keys{{"adapter", ""}, {key, key == std::string("bf16_weights") ? "kahan" : "bf16"}});
    const auto log = steps(at(key));
    ASSERT_EQ(log.size(), 2u);
    EXPECT_NEAR(log[0]["kl"].get<double>(), 0, 1e-12) << key;
    EXPECT_GT(log[1]["kl"].get<double>(), 0) << key;
  }
}

// A checkpoint between two steps over the same completions contains these.
TEST_F(RewardRuns, AMovingReferenceIsTheModelAfterEachSync) {
  const Keys keys = rewards("[{length: 20}]", {{"beta", "0.05"},
                                               {"num_iterations", "2"},
                                               {"sync_ref_model", "true"},
                                               {"ref_model_mixup_alpha", "1"},
                                               {"ref_model_sync_steps", "2"}});
  const Outcome one = trained("one", keys);
  const auto log = steps(at("one"));
  ASSERT_EQ(log.size(), 4u);
  for (std::size_t s = 0; s < log.size(); ++s) {
    if (s % 2 == 0) EXPECT_NEAR(log[s]["kl"].get<double>(), 0, 1e-12) << s;
    else EXPECT_GT(log[s]["kl"].get<double>(), 1e-9) << s;
  }
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there: ranks were not compared";
  EXPECT_TRUE(one == trained("two", keys, 2));
}

TEST_F(RewardRuns, AResumedRunIsTheUninterruptedOne) {
  const Keys keys = rewards("[{regex: '[ae]'}]", {{"num_iterations", "2"}}) + Keys{{"save_steps", "1"}};
  const Outcome whole = trained("whole", keys);
  for (const int step : {1, 2}) {
    const std::string name = fmt::format("again{}", step), checkpoint = fmt::format("/checkpoint-{}", step);
    fs::create_directory(at(name));
    fs::copy_file(at("whole/metrics.jsonl"), at(name) + "/metrics.jsonl");
    fs::copy(at("whole") + checkpoint, at(name) + checkpoint, fs::copy_options::recursive);
    EXPECT_TRUE(whole == trained(name, keys, 1, {"--resume", "auto"})) << step;
  }
}

// Full fine-tuning, and micro-batches that cut the completions of a prompt.
TEST_F(RewardRuns, BitsDoNotDependOnMicroBatches) {
  for (const char* loss : {"grpo", "dr_grpo", "bnpo"}) {
    const Keys keys = rewards("[{regex: '[ae]'}]", {{"loss_type", loss}, {"importance_sampling_level", "sequence"}}) +
                      Keys{{"max_steps", "2"}};
    const Outcome one = trained(fmt::format("one-{}", loss), keys),
                  cut = trained(fmt::format("cut-{}", loss), keys + Keys{{"micro_batch_size", "2"}});
    EXPECT_EQ(one, cut) << loss;
  }
}

TEST_F(RewardRuns, TheFirstCompletionsAreThoseOfInfer) {
  const Keys keys = rewards("[{regex: '[ae]'}]", {{"log_completions", "true"}, {"num_completions_to_print", "4"}}) +
                    Keys{{"curriculum_sampling", "true"}, {"max_steps", "1"}};
  const std::string path = recipe("shown.yml", keys + Keys{{"output_dir", at("shown")}});
  const Ended run = train(1, path);
  ASSERT_EQ(run.exit, 0) << run.err;
  const Ended said = dml({"infer", path, "--adapter", "none", "--prompt", "Tell me about number 0.", "--seed", "7",
                          "--temperature", "1", "--top-p", "1", "--top-k", "0", "--max-new-tokens", "12"});
  ASSERT_EQ(said.exit, 0) << said.err;
  std::string text = said.out;
  while (text.ends_with('\n')) text.pop_back();
  EXPECT_NE(run.err.find("advantage"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find(text.substr(0, text.find('\n'))), std::string::npos) << text << "\n" << run.err;
}

// Trained to like "three": it rewards completions, and chooses among answers.
TEST_F(RewardRuns, ARewardModelRewardsAndChooses) {
  std::string pairs;
  for (int i = 0; i < 16; ++i)
    pairs += fmt::format(
        "{{\"prompt\": \"Question {0}: how many?\\n\", \"chosen\": \"It is three.\", \"rejected\": \"No idea "
        "{0}.\"}}\n",
        i);
  const std::string judge = at("judge");
  const Ended made =
      train(1, recipe("judge.yml", tiny_lora() + Keys{{"reward_model", "true"},
                                                      {"datasets", fmt::format("[{{path: {}, type: passthrough}}]",
                                                                               write("pairs.jsonl", pairs))},
                                                      {"val_set_size", ""},
                                                      {"eval_steps", ""},
                                                      {"output_dir", judge}}));
  ASSERT_EQ(made.exit, 0) << made.err;
  const Keys keys = rewards(fmt::format("[{{model: {}, weight: 2, name: judge}}]", judge)) + Keys{{"max_steps", "1"}};
  EXPECT_EQ(dml({"validate", recipe("one.yml", keys)}).exit, 0);
  expect_refused(dml({"validate", recipe("one.yml", rewards(fmt::format("[{{model: {}}}]", base_directory())))}), 2,
                 {"is a language model, not a reward model"});
  const Outcome one = trained("one", keys);
  EXPECT_TRUE(steps(at("one"))[0].contains("rewards/judge/mean"));
  if (has_mpirun()) {
    EXPECT_TRUE(one == trained("two", keys, 2));
  }
  // The judge has the tokens of the model that samples, so that it needs no 'prompt'.
  std::string instructions;
  for (int i = 0; i < 8; ++i) instructions += fmt::format("{{\"instruction\": \"Tell me about {}.\"}}\n", i);
  const std::string unnamed = write("instructions.jsonl", instructions);
  trained("unnamed", keys + Keys{{"datasets", fmt::format("[{{path: {}, type: alpaca}}]", unnamed)}});

  const std::string rows =
      write("ask.jsonl", "{\"prompt\": \"Question 3: how many?\"}\n{\"prompt\": \"Question 4: how many?\"}\n");
  const Words infer{"infer", at("one.yml"), "--adapter", "none", "--max-new-tokens", "6", "--input", rows};
  const auto answered = [&](const std::string& name, Words more) {
    Words words = infer;
    words.insert(words.end(), {"--output", at(name), "--temperature", "1"});
    words.insert(words.end(), more.begin(), more.end());
    const Ended e = dml(words);
    EXPECT_EQ(e.exit, 0) << e.err;
    return json_lines(at(name));
  };
  const auto two = answered("two.jsonl", {"--reward", judge, "--best-of", "2"}),
             many = answered("many.jsonl", {"--reward", judge, "--best-of", "16"});
  ASSERT_EQ(two.size(), 2u);
  // The first prompt's two answers are among its sixteen.
  EXPECT_GE(many[0]["reward"].get<double>() + 1e-4, two[0]["reward"].get<double>());
  EXPECT_EQ(two, answered("again.jsonl", {"--reward", judge, "--best-of", "2"}));
  const auto refused = [&](Words more, const char* says) {
    Words words = infer;
    words.insert(words.end(), {"--output", at("none.jsonl")});
    words.insert(words.end(), more.begin(), more.end());
    const Ended e = dml(words);
    EXPECT_EQ(e.exit, 2) << e.err;
    EXPECT_NE(e.err.find(says), std::string::npos) << e.err;
  };
  refused({"--best-of", "4"}, "--best-of needs --reward");
  refused({"--reward", judge, "--best-of", "1"}, "--best-of: 1 is not between 2");
  refused({"--reward", judge, "--greedy"}, "--reward needs answers that differ");
  refused({"--reward", base_directory()}, "is a language model, not a reward model");
}

TEST_F(RewardRuns, InvalidSettingsAreRejectedInOneLine) {
  const auto refused = [&](const Keys& keys, const Words& says) {
    expect_refused(train(1, recipe("bad.yml", keys)), 2, says);
  };
  refused(rewards("[exat]"), {"unknown reward 'exat'; did you mean 'exact'?"});
  refused(rewards("[exact]", {{"num_generations", "1"}}), {"'trl.num_generations'"});
  refused(rewards("[exact]", {{"num_generations", "5"}}), {"'batch_size' of 16 completions must be a multiple"});
  refused(rewards("[exact]", {{"max_completion_length", "128"}}),
          {"leaves no room for a prompt", "raise sequence_len, or lower trl.max_completion_length"});
  refused(rewards("[exact]", {{"reward_weights", "[1, 2]"}}), {"has 2 weights", "has 1 rewards"});
  refused(rewards("[exact]", {{"reward_funcs", "[a.b]"}}), {"'trl.reward_funcs' is not supported", "rewards"});
  refused(rewards("[exact]") + Keys{{"val_set_size", "2"}}, {"'val_set_size' does not work", "evals"});
  refused(rewards("[exact]") + Keys{{"sample_packing", "true"}}, {"'sample_packing' does not work"});
  refused(rewards(""), {"needs 'rewards'"});
  const Ended valid = dml({"validate", recipe("valid.yml", rewards("[exact]"))});
  EXPECT_NE(valid.err.find("dml evaluate has nothing to do; set evals"), std::string::npos) << valid.err;
  const Ended rows = train(1, recipe("bad.yml", rewards("[choice]")));
  EXPECT_EQ(rows.exit, 2);
  std::size_t place = 0;
  for (int line = 1; line <= 8; ++line) {  // in the order of the file
    place = rows.err.find(fmt::format("questions.jsonl:{}: rewards: check 'choice' needs 'choices'", line), place);
    ASSERT_NE(place, std::string::npos) << line << ": " << rows.err;
  }
}

TEST_F(RewardRuns, AProgramThatFailsEndsTheRunWithItsLastCheckpoint) {
  const std::string judge = write("judge.py",
                                  "import sys, json\n"
                                  "for i, line in enumerate(sys.stdin):\n"
                                  "    if i >= 16: sys.exit(1)\n"
                                  "    print(json.dumps({'score': len(json.loads(line)['output'])}), flush=True)\n");
  const Ended e = train(1, recipe("dies.yml", rewards(fmt::format("[{{command: [python3, {}]}}]", judge)) +
                                                  Keys{{"save_steps", "1"}, {"output_dir", at("dies")}}));
  EXPECT_EQ(e.exit, 2) << e.err;
  EXPECT_NE(e.err.find("reward 'command': judge"), std::string::npos) << e.err;
  EXPECT_NE(e.err.find("questions.jsonl:"), std::string::npos) << e.err;
  EXPECT_TRUE(fs::exists(at("dies/checkpoint-1/dml_state.json"))) << e.err;
}

}  // namespace
}  // namespace dml::e2e
