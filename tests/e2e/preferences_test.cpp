// Whole runs on preferences: what is logged, that they learn, and that bits depend only on the recipe.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace fs = std::filesystem;
namespace {

class PreferenceRuns : public Workshop {
 protected:
  // Questions whose preferred answers are numbers in words.
  std::string pairs(int rows) const {
    std::string text;
    for (int i = 0; i < rows; ++i)
      text += fmt::format(
          "{{\"prompt\": \"Question {0}: how many?\\n\", \"chosen\": \"It is {1}.\", \"rejected\": \"No idea "
          "{0}.\"}}\n",
          i, i % 3 == 0 ? "three" : "one and a half");
    return write("pairs.jsonl", text);
  }
  std::string labels(int rows) const {
    std::string text;
    for (int i = 0; i < rows; ++i)
      text += fmt::format("{{\"prompt\": \"Question {0}: how many?\\n\", \"completion\": \"{1}\", \"label\": {2}}}\n",
                          i, i % 2 == 0 ? "It is three." : "No idea at all.", i % 2 == 0 ? "true" : "false");
    return write("labels.jsonl", text);
  }
  std::string judged_steps(int rows) const {
    std::string text;
    for (int i = 0; i < rows; ++i)
      text += fmt::format(
          "{{\"prompt\": \"Count {0}.\", \"completions\": [\"It is three.\", \"No idea.\"], \"labels\": [true, "
          "false]}}\n",
          i);
    return write("steps.jsonl", text);
  }
  // A method of `rl`, or a key that stands for one.
  Keys preference(const std::string& method) const {
    const bool steps = method == "process_reward_model", model = steps || method == "reward_model";
    return tiny_lora() + Keys{{model ? method : "rl", model ? "true" : method},
                              {"datasets", fmt::format("[{{path: {}, type: {}}}]",
                                                       steps             ? judged_steps(44)
                                                       : method == "kto" ? labels(44)
                                                                         : pairs(44),
                                                       steps ? "stepwise_supervised" : "passthrough")},
                              {"learning_rate", "3e-3"},
                              {"lora_dropout", "0"},
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
    std::string numbers;
    bool operator==(const Outcome&) const = default;
  };
  Outcome trained(const std::string& name, const Keys& keys, int ranks = 1) {
    const std::string out = at(name);
    const Ended e = train(ranks, recipe(name + ".yml", keys + Keys{{"output_dir", out}}));
    EXPECT_EQ(e.exit, 0) << e.err;
    return {results_in(out), numbers_of(out + "/metrics.jsonl")};
  }
};

class EachMethod : public PreferenceRuns, public testing::WithParamInterface<const char*> {};

TEST_P(EachMethod, BitsDoNotDependOnRanks) {
  const Keys keys = preference(GetParam());
  const Outcome one = trained("one", keys);
  ASSERT_FALSE(one.files.empty());
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there: ranks were not compared";
  EXPECT_TRUE(one == trained("two", keys, 2));
  EXPECT_TRUE(one == trained("four", keys + Keys{{"distribution", "zero2"}}, 4));
}

// With short contexts a step has several micro-batches.
TEST_P(EachMethod, BitsDoNotDependOnMicroBatchesAccumulationOrPacking) {
  const Keys keys =
      preference(GetParam()) + Keys{{"sequence_len", "64"}, {"batch_size", "8"}, {"eval_batch_size", "4"}};
  const Outcome one = trained("one", keys + Keys{{"micro_batch_size", "1"}});
  ASSERT_FALSE(one.numbers.empty());
  auto same = [&](const std::string& name, const Keys& way) {
    const Outcome other = trained(name, keys + way);
    EXPECT_EQ(one.numbers, other.numbers) << name;
    EXPECT_EQ(one.files.at("adapter_model.safetensors"), other.files.at("adapter_model.safetensors")) << name;
  };
  same("four", {{"micro_batch_size", "4"}});
  same("eight", {{"micro_batch_size", "8"}});
  same("packed", {{"micro_batch_size", "2"}, {"sample_packing", "true"}});
}

TEST_P(EachMethod, EvaluationsDoNotDependOnPackingOrMicroBatches) {
  const Keys keys = preference(GetParam()) + Keys{{"val_set_size", "12"}, {"save_strategy", "no"}, {"max_steps", "2"}};
  trained("run", keys);
  std::vector<double> losses;
  for (const Keys& way :
       std::vector<Keys>{{}, {{"micro_batch_size", "1"}}, {{"sample_packing", "true"}, {"sequence_len", "96"}}}) {
    if (way.contains("sample_packing") && GetParam() == std::string("kto"))
      continue;  // its neighbors in the step are others
    const Ended e = dml({"evaluate", recipe("eval.yml", keys + way + Keys{{"output_dir", at("run")}}), "--json"});
    ASSERT_EQ(e.exit, 0) << e.err;
    losses.push_back(Json::parse(e.out.substr(e.out.rfind('{')))["loss"]);
  }
  for (const double loss : losses) EXPECT_NEAR(loss, losses[0], 1e-12);
}

TEST_P(EachMethod, AResumedRunIsTheUninterruptedOne) {
  const Keys keys = preference(GetParam()) + Keys{{"save_steps", "4"}};
  const Outcome whole = trained("whole", keys);
  const std::string folder = at("again");
  fs::create_directory(folder);
  fs::copy_file(at("whole/metrics.jsonl"), folder + "/metrics.jsonl");
  fs::copy(at("whole/checkpoint-4"), folder + "/checkpoint-4", fs::copy_options::recursive);
  const Ended e = train(1, recipe("again.yml", keys + Keys{{"output_dir", folder}}), {"--resume", "auto"});
  ASSERT_EQ(e.exit, 0) << e.err;
  EXPECT_EQ(numbers_of(folder + "/metrics.jsonl"), whole.numbers);
  EXPECT_EQ(results_in(folder), whole.files);
}

INSTANTIATE_TEST_SUITE_P(Preferences, EachMethod,
                         testing::Values("dpo", "orpo", "simpo", "cpo", "kto", "reward_model", "process_reward_model"),
                         [](auto& of) { return std::string(of.param); });

TEST_F(PreferenceRuns, DpoStartsAtItsKnownLossAndLearnsThePairs) {
  trained("dpo", preference("dpo") + Keys{{"learning_rate", "1e-2"}});
  const auto log = steps(at("dpo"));
  ASSERT_EQ(log.size(), 10u);
  EXPECT_NEAR(log.front()["loss"].get<double>(), std::log(2.0), 1e-12);
  EXPECT_EQ(log.front()["rewards/margins"].get<double>(), 0);
  EXPECT_EQ(log.back()["rewards/accuracies"].get<double>(), 1);
  EXPECT_GT(log.back()["rewards/chosen"].get<double>(), log.back()["rewards/rejected"].get<double>());
  EXPECT_LT(log.back()["loss"].get<double>(), 0.6);
}

TEST_F(PreferenceRuns, LossesThatComparePairsUseTheWholeStep) {
  const Keys keys = preference("dpo") + Keys{{"dpo_loss_type", "[aot, sft]"}, {"dpo_loss_weights", "[1, 0.2]"}};
  const Outcome one = trained("one", keys);
  trained("cut", keys + Keys{{"micro_batch_size", "4"}});
  EXPECT_NEAR(steps(at("one")).back()["loss"].get<double>(), steps(at("cut")).back()["loss"].get<double>(), 1e-3);
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there: ranks were not compared";
  EXPECT_TRUE(one == trained("two", keys, 2));
}

TEST_F(PreferenceRuns, FullFineTuningHasAReferenceOfItsOwn) {
  const Keys keys = preference("dpo") + Keys{{"adapter", ""},      {"lora_r", ""},
                                             {"lora_alpha", ""},   {"lora_target_linear", ""},
                                             {"lora_dropout", ""}, {"learning_rate", "1e-3"}};
  const Outcome one = trained("one", keys);
  EXPECT_NEAR(steps(at("one")).front()["loss"].get<double>(), std::log(2.0), 1e-12);
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there: ranks were not compared";
  EXPECT_TRUE(one == trained("zero3", keys + Keys{{"distribution", "zero3"}}, 2));
}

// The model at the start is rounded: its scores are not those of the same model unrounded.
TEST_F(PreferenceRuns, ReferencesOfRoundedWeightsAreTheirOwn) {
  const Keys full = preference("dpo") + Keys{{"adapter", ""},           {"lora_r", ""},     {"lora_alpha", ""},
                                             {"lora_dropout", ""},      {"max_steps", "2"}, {"learning_rate", "1e-4"},
                                             {"lora_target_linear", ""}};
  const Keys rounded = full + Keys{{"bf16_weights", "kahan"}};
  const Outcome alone = trained("alone", rounded + Keys{{"dataset_prepared_path", at("one")}});
  trained("plain", full + Keys{{"dataset_prepared_path", at("two")}});
  EXPECT_TRUE(alone == trained("after", rounded + Keys{{"dataset_prepared_path", at("two")}}));
  trained("split", rounded + Keys{{"dataset_prepared_path", at("three")}, {"val_set_size", "8"}, {"eval_steps", "2"}});
  std::vector<Json> log = json_lines(at("split/metrics.jsonl"));
  std::erase_if(log, [](const Json& line) { return line.value("event", "") != "eval"; });
  ASSERT_FALSE(log.empty());
  const Ended e = dml({"evaluate", at("split.yml"), "--json"});
  ASSERT_EQ(e.exit, 0) << e.err;
  EXPECT_EQ(json_lines(write("evaluated.jsonl", e.out)).back()["loss"], log.back()["loss"]);
}

TEST_F(PreferenceRuns, EveryTrainingMethodStartsAtTheKnownLoss) {
  const std::vector<Keys> ways = {{{"peft_use_dora", "true"}},
                                  {{"adapter", "qlora"}},
                                  {{"bf16", "true"}},
                                  {{"gradient_checkpointing", "true"}},
                                  {{"distribution", "zero1"}}};
  int number = 0;
  for (const Keys& way : ways) {
    const std::string name = fmt::format("way{}", number++);
    trained(name, preference("dpo") + way + Keys{{"max_steps", "2"}, {"precompute_ref_log_probs", "false"}});
    const auto log = steps(at(name));
    ASSERT_FALSE(log.empty()) << way.begin()->first;
    EXPECT_NEAR(log.front()["loss"].get<double>(), std::log(2.0), 1e-6) << way.begin()->first;
  }
}

// All losses that have a reference, those of pairs together in one run.
TEST_F(PreferenceRuns, TheReferenceIsTheSameInEveryStepAsBeforeTheFirst) {
  const std::string every =
      "[sigmoid, hinge, exo_pair, nca_pair, robust, bco_pair, sppo_hard, aot, aot_unpaired, apo_zero, apo_down, "
      "discopop, sigmoid_norm, dpop, sft]";
  const std::vector<Keys> ways = {
      preference("dpo") + Keys{{"dpo_loss_type", every}, {"dpo_label_smoothing", "0.1"}, {"ld_alpha", "0.5"}},
      preference("dpo") + Keys{{"dpo_loss_type", "[ipo]"}, {"dpo_use_weighting", "true"}},
      preference("dpo") + Keys{{"f_divergence_type", "js_divergence"}},
      preference("kto"),
      preference("kto") + Keys{{"kto_loss_type", "apo_zero_unpaired"}},
      preference("dpo") + Keys{{"peft_init_lora_weights", "false"}},  // B is not zero: the base is no reference
  };
  int number = 0;
  for (const Keys& way : ways) {
    const std::string name = fmt::format("way{}", number++);
    const Keys keys = way + Keys{{"max_steps", "4"}, {"save_strategy", "no"}};
    const Outcome before = trained(name, keys);
    ASSERT_FALSE(before.files.empty());
    EXPECT_TRUE(before == trained(name + "-base", keys + Keys{{"precompute_ref_log_probs", "false"}})) << name;
  }
}

// The settings of the adapter in lora_model_dir are those of the run, and of its reference.
TEST_F(PreferenceRuns, TheSettingsOfTheFirstAdapterBelongToTheRun) {
  trained("first", preference("dpo") + Keys{{"max_steps", "2"}, {"save_strategy", "no"}});
  const Keys next = preference("dpo") + Keys{{"lora_model_dir", at("first")},
                                             {"dataset_prepared_path", at("data")},
                                             {"lora_dropout", "0"},
                                             {"max_steps", "4"},
                                             {"save_steps", "2"}};
  trained("second", next);
  const auto resumed = [&] {
    return train(1, recipe("second.yml", next + Keys{{"output_dir", at("second")}}),
                 {"--resume", at("second/checkpoint-2")});
  };
  EXPECT_EQ(resumed().exit, 0);
  const std::string config = at("first/adapter_config.json");
  std::string text = read_file(config, 1 << 20);
  const auto alpha = text.find("\"lora_alpha\": ");
  ASSERT_NE(alpha, text.npos);
  text.insert(alpha + 14, "3");
  write("first/adapter_config.json", text);
  expect_refused(resumed(), 2, {"The adapter in 'lora_model_dir' changed since this checkpoint"});
  trained("third", next);  // computes another reference
  EXPECT_NEAR(steps(at("third"))[0]["loss"].get<double>(), std::log(2.0), 1e-6);
}

// With α = 1 the reference is the model itself after every second step, so the loss of the step after is the known
// one.
TEST_F(PreferenceRuns, AMovingReferenceIsTheModelAfterEachSync) {
  const Keys keys =
      preference("dpo") +
      Keys{{"trl", "{sync_ref_model: true, ref_model_mixup_alpha: 1, ref_model_sync_steps: 2}"}, {"save_steps", "5"}};
  const Outcome one = trained("one", keys);
  const auto log = steps(at("one"));
  for (std::size_t s = 0; s < log.size(); ++s)
    if (s % 2 == 0) EXPECT_NEAR(log[s]["loss"].get<double>(), std::log(2.0), 1e-12) << "step " << s + 1;
    else EXPECT_LT(log[s]["loss"].get<double>(), std::log(2.0) - 1e-6) << "step " << s + 1;
  const std::string folder = at("again");
  fs::create_directory(folder);
  fs::copy_file(at("one/metrics.jsonl"), folder + "/metrics.jsonl");
  fs::copy(at("one/checkpoint-5"), folder + "/checkpoint-5", fs::copy_options::recursive);
  const Ended e = train(1, recipe("again.yml", keys + Keys{{"output_dir", folder}}), {"--resume", "auto"});
  ASSERT_EQ(e.exit, 0) << e.err;
  EXPECT_EQ(results_in(folder), one.files);
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there: ranks were not compared";
  EXPECT_TRUE(one == trained("two", keys + Keys{{"distribution", "zero2"}}, 2));
}

TEST_F(PreferenceRuns, EvaluateMeasuresThePreferencesOfTheValidationSplit) {
  for (const auto& [rl, init] : {std::pair{"dpo", "true"}, {"kto", "true"}, {"dpo", "false"}}) {
    const std::string name = fmt::format("{}-{}", rl, init);
    trained(name, preference(rl) + Keys{{"val_set_size", "8"}, {"peft_init_lora_weights", init}});
    const Ended e = dml({"evaluate", at(name + ".yml"), "--json"});
    ASSERT_EQ(e.exit, 0) << e.err;
    const std::size_t last = e.out.rfind('{');
    const Json row = Json::parse(e.out.substr(last));
    double eval_loss = 0;
    for (const Json& line : json_lines(at(name) + "/metrics.jsonl"))
      if (line.contains("event") && line.contains("loss")) {
        eval_loss = line["loss"];
        EXPECT_FALSE(line.contains("ppl"));
      }
    EXPECT_NEAR(row["loss"].get<double>(), eval_loss, 1e-5) << name;
    EXPECT_TRUE(row.contains("rewards/margins"));
    EXPECT_FALSE(row.contains("ppl"));
  }
}

// The base has no head whose old values PEFT would store beside the new ones.
TEST_F(PreferenceRuns, ARewardModelMayAddTokens) {
  const Keys keys =
      preference("reward_model") + Keys{{"tokens", "[\"<judged>\"]"}, {"lora_modules_to_save", "[embed_tokens]"}};
  const std::string path = recipe("tokens.yml", keys + Keys{{"output_dir", at("tokens")}});
  ASSERT_EQ(train(1, path).exit, 0);
  const Ended scored = dml({"score", path});
  EXPECT_EQ(scored.exit, 0) << scored.err;
}

// The loss of the pairs' scores is that of the run's evaluation only on the base that was trained: the quantized one.
TEST_F(PreferenceRuns, ARewardModelIsScoredOnItsQuantizedBase) {
  const Keys keys = preference("reward_model") + Keys{{"adapter", "qlora"}, {"quantized_cache_path", at("quantized")}};
  const std::string path =
      recipe("qlora.yml", keys + Keys{{"output_dir", at("qlora")},
                                      {"val_set_size", ""},
                                      {"test_datasets", fmt::format("[{{path: {}, type: passthrough}}]", pairs(44))}});
  const Ended run = train(1, path);
  ASSERT_EQ(run.exit, 0) << run.err;
  const Ended measured = dml({"evaluate", path, "--json"});
  ASSERT_EQ(measured.exit, 0) << measured.err;
  const Ended scored = dml({"score", path, "--output", at("scores.jsonl")});
  ASSERT_EQ(scored.exit, 0) << scored.err;
  double loss = 0;
  const std::vector<Json> rows = json_lines(at("scores.jsonl"));
  ASSERT_FALSE(rows.empty());
  for (const Json& row : rows)
    loss += std::log1p(std::exp(row["rejected"].get<double>() - row["chosen"].get<double>())) /
            static_cast<double>(rows.size());
  EXPECT_NEAR(loss, Json::parse(measured.out.substr(measured.out.rfind('{')))["loss"].get<double>(), 1e-5);

  // The folder alone says how its base was quantized; without that, the base is read as it is.
  const auto of_folder = [&](const std::string& folder) {
    const Ended e = dml({"score", folder, "--input", at("pairs.jsonl"), "--output", at("folder.out")});
    EXPECT_EQ(e.exit, 0) << e.err;
    std::vector<double> margins;
    for (const Json& row : json_lines(at("folder.out"))) margins.push_back(row["margin"].get<double>());
    return margins;
  };
  std::vector<double> margins(44);
  for (const Json& row : rows) {
    const std::string place = row["place"].get<std::string>();
    margins.at(std::stoul(place.substr(place.rfind(':') + 1)) - 1) = row["margin"].get<double>();
  }
  EXPECT_EQ(of_folder(at("qlora")), margins);
  std::filesystem::remove(at("qlora/quantization_config.json"));
  EXPECT_NE(of_folder(at("qlora")), margins);
}

TEST_F(PreferenceRuns, ARewardModelLearnsThePairsAndScoresTexts) {
  Keys keys = preference("reward_model") + Keys{{"learning_rate", "1e-2"}, {"center_rewards_coefficient", "0.01"}};
  const Outcome one = trained("reward", keys);
  const auto log = steps(at("reward"));
  ASSERT_FALSE(log.empty());
  EXPECT_LT(log.back()["loss"].get<double>(), log.front()["loss"].get<double>());
  EXPECT_EQ(log.back()["accuracy"].get<double>(), 1);
  const Json config = Json::parse(one.files.at("adapter_config.json"));
  EXPECT_EQ(config["task_type"], "SEQ_CLS");
  EXPECT_EQ(config["modules_to_save"], Json::array({"score"}));
  const Ended pairs = dml({"score", at("reward.yml"), "--output", at("pairs.out")});
  EXPECT_EQ(pairs.exit, 0) << pairs.err;
  const Json row = json_lines(at("pairs.out")).front();
  EXPECT_GT(row["chosen"].get<double>(), row["rejected"].get<double>());
  write("texts.jsonl", R"({"prompt": "Question 0: how many?\n", "chosen": "It is three.", "rejected": "No idea 0."})"
                       "\n");
  const Ended texts = dml({"score", at("reward"), "--input", at("texts.jsonl"), "--output", at("texts.out")});
  EXPECT_EQ(texts.exit, 0) << texts.err;
  const double margin = json_lines(at("texts.out")).front()["margin"].get<double>();
  for (const Json& scored : json_lines(at("pairs.out")))
    if (scored["place"].get<std::string>().ends_with("pairs.jsonl:1")) {
      EXPECT_EQ(margin, scored["margin"].get<double>()) << "the same row, in the format of the training";
    }
  const Ended info = dml({"info", at("reward")});
  EXPECT_EQ(info.exit, 0) << info.out;
  EXPECT_THAT(info.out, testing::HasSubstr("sequence classification (a reward model)"));
  const Ended merged = dml({"merge", at("reward.yml"), "--output", at("merged")});
  ASSERT_EQ(merged.exit, 0) << merged.err;
  const Ended again = dml({"score", at("merged"), "--input", at("texts.jsonl"), "--output", at("merged.out")});
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_NEAR(json_lines(at("merged.out")).front()["margin"].get<double>(), margin, 1e-4);
  expect_refused(dml({"infer", at("reward.yml"), "--prompt", "x"}), 2, {"reward"});
  expect_refused(dml({"infer", "--base-model", base_directory(), "--adapter", at("reward"), "--prompt", "x"}), 2,
                 {"is the adapter of a reward model"});
}

TEST_F(PreferenceRuns, ARewardModelTrainedInFullIsASequenceClassifier) {
  Keys keys = preference("reward_model") + Keys{{"adapter", ""},      {"lora_r", ""},
                                                {"lora_alpha", ""},   {"lora_target_linear", ""},
                                                {"lora_dropout", ""}, {"learning_rate", "1e-3"}};
  const Outcome one = trained("full", keys);
  const Json config = Json::parse(one.files.at("config.json"));
  EXPECT_EQ(config["architectures"], Json::array({"LlamaForSequenceClassification"}));
  EXPECT_EQ(config["id2label"].size(), 1u);
  // transformers reads the reward at the last token that is no padding: that must not be the end of the text.
  EXPECT_EQ(config["label2id"], Json::parse(R"({"LABEL_0": 0})"));
  ASSERT_TRUE(config["pad_token_id"].is_number());
  EXPECT_NE(config["pad_token_id"], config["eos_token_id"]);
  EXPECT_FALSE(Json::parse(read_file(at("full/tokenizer_config.json"), 1 << 20))["pad_token"].is_null());
  EXPECT_NE(one.files.at("model.safetensors").find("score.weight"), std::string::npos);
  EXPECT_EQ(one.files.at("model.safetensors").find("lm_head.weight"), std::string::npos);
  std::string rows;
  for (const char* answer : {"It is three.", "No idea.", "Four."})
    rows += dump(Json{{"prompt", "Question"}, {"completion", answer}}) + "\n";
  write("texts.jsonl", rows);
  Words score{"score", at("full"), "--input", at("texts.jsonl")};
  const Ended texts = dml(score);
  EXPECT_EQ(texts.exit, 0) << texts.err;
  score.insert(score.end(), {"--output", at("texts.out"), "--resume"});
  const std::size_t first = texts.out.find('\n') + 1, second = texts.out.find('\n', first) + 1;
  write("texts.out.partial", texts.out.substr(first, second - first));
  expect_refused(dml(score), 2, {"texts.out.partial:1 is not the result of row 1 of --input"});
  write("texts.out.partial", texts.out.substr(0, second));
  EXPECT_EQ(dml(score).exit, 0);
  EXPECT_EQ(read_file(at("texts.out")), texts.out);
  expect_refused(dml({"infer", "--base-model", at("full"), "--prompt", "x"}), 2, {"sequence classification"});
  expect_refused(dml({"convert", at("full"), "--format", "gguf", "--output", at("full.gguf")}), 2,
                 {"sequence classification", "GGUF"});
  expect_refused(dml({"convert", at("full"), "--tied", "--output", at("tied")}), 2, {"--tied", "is a reward model"});
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there: ranks were not compared";
  EXPECT_TRUE(one == trained("zero3", keys + Keys{{"distribution", "zero3"}}, 2));
}

TEST_F(PreferenceRuns, AProcessRewardModelJudgesSteps) {
  const Outcome one = trained("prm", preference("process_reward_model") + Keys{{"learning_rate", "1e-2"}});
  EXPECT_EQ(Json::parse(one.files.at("adapter_config.json"))["task_type"], "TOKEN_CLS");
  EXPECT_FALSE(fs::exists(at("prm/chat_template.jinja")));
  const Ended e = dml({"score", at("prm"), "--input", at("steps.jsonl"), "--output", at("steps.out")});
  EXPECT_EQ(e.exit, 0) << e.err;
  const Json scores = json_lines(at("steps.out")).front()["steps"];
  ASSERT_EQ(scores.size(), 2u);
  expect_refused(dml({"score", at("prm.yml")}), 2, {"dml score " + at("prm") + " --input FILE"});
  EXPECT_GT(scores[0].get<double>(), 0.5);
  EXPECT_LT(scores[1].get<double>(), 0.5);
}

// GPT-2's classifier of tokens is called "classifier"; a recipe and PEFT's files may say either name.
TEST_F(PreferenceRuns, TheHeadOfAFamilyHasItsOwnName) {
  const Keys plain{{"val_set_size", ""}, {"eval_steps", ""}, {"max_steps", "2"}};
  const Keys gpt = tiny_model() + plain +
                   Keys{{"model_config",
                         "{model_type: gpt2, vocab_size: 2048, n_embd: 32, n_layer: 2, n_head: 2, n_positions: 128, "
                         "bos_token_id: 1, eos_token_id: 2}"},
                        {"output_dir", at("gpt")}};
  alpaca("rows.jsonl", 8);
  const Ended made = train(1, recipe("gpt.yml", gpt));
  ASSERT_EQ(made.exit, 0) << made.err;
  const Outcome judge = trained("judge", preference("process_reward_model") + plain + Keys{{"base_model", at("gpt")}});
  EXPECT_EQ(Json::parse(judge.files.at("adapter_config.json"))["modules_to_save"], Json::array({"classifier"}));
  EXPECT_NE(judge.files.at("adapter_model.safetensors").find("classifier.weight"), std::string::npos);
  EXPECT_NE(judge.files.at("adapter_model.safetensors").find("classifier.bias"), std::string::npos);
  const Ended e = dml({"score", at("judge"), "--input", at("steps.jsonl"), "--output", at("steps.out")});
  ASSERT_EQ(e.exit, 0) << e.err;
  Json config = read_json(at("judge/adapter_config.json"));
  config["modules_to_save"] = Json::array({"classifier", "score"});
  write("judge/adapter_config.json", dump(config));
  const Ended again = dml({"score", at("judge"), "--input", at("steps.jsonl"), "--output", at("again.out")});
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_EQ(read_file(at("again.out"), 1 << 20), read_file(at("steps.out"), 1 << 20));
  expect_refused(dml({"convert", at("judge"), "--format", "gguf", "--output", at("judge.gguf")}), 2, {"reward model"});
}

TEST_F(PreferenceRuns, BadStepsAreRefusedByTheirLine) {
  write("bad.jsonl", R"({"prompt": "a", "completions": ["b", "c"], "labels": [true]})"
                     "\n");
  expect_refused(
      train(1, recipe("steps.yml", preference("process_reward_model") +
                                       Keys{{"datasets", fmt::format("[{{path: {}, type: stepwise_supervised}}]",
                                                                     at("bad.jsonl"))}})),
      2, {"bad.jsonl:1", "'completions' has 2 steps, 'labels' has 1"});
}

TEST_F(PreferenceRuns, AnswersOfOneKindAreRefused) {
  write("single.jsonl", R"({"prompt": "How many?\n", "completion": "It is three.", "label": true})"
                        "\n");
  const Keys keys =
      preference("kto") + Keys{{"datasets", fmt::format("[{{path: {}, type: passthrough}}]", at("single.jsonl"))},
                               {"val_set_size", ""},
                               {"eval_steps", ""}};
  expect_refused(train(1, recipe("one.yml", keys)), 2, {"single.jsonl", "none of the answers is bad (label: false)"});
}

// Only the loss called kto compares a prompt with the answer of another row.
TEST_F(PreferenceRuns, StepsOfOneAnswerWorkWithoutMismatchedAnswers) {
  const Keys keys = preference("kto") + Keys{{"batch_size", ""},
                                             {"micro_batch_size", "1"},
                                             {"gradient_accumulation_steps", "1"},
                                             {"max_steps", "2"},
                                             {"output_dir", at("out")}};
  expect_refused(train(1, recipe("kto.yml", keys)), 2, {"micro_batch_size", "at least two answers"});
  const Ended e = train(1, recipe("apo.yml", keys + Keys{{"kto_loss_type", "apo_zero_unpaired"}}));
  EXPECT_EQ(e.exit, 0) << e.err;
  EXPECT_EQ(e.err.find("compares answers"), std::string::npos) << e.err;
}

TEST_F(PreferenceRuns, RowsThatAreNoPairsAreRefusedByTheirLine) {
  write("bad.jsonl",
        "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}\n{\"prompt\": \"a\", \"chosen\": \"b\"}\n");
  const Ended e = train(
      1, recipe("bad.yml", preference("dpo") +
                               Keys{{"datasets", fmt::format("[{{path: {}, type: passthrough}}]", at("bad.jsonl"))}}));
  expect_refused(e, 2, {"bad.jsonl:2", "'rejected'"});
}

}  // namespace
}  // namespace dml::e2e
