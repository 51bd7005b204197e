// dml validate: all that is wrong with a recipe, its files and its memory, at once, with its places.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "core/files.h"
#include "e2e/commands.h"

namespace dml::e2e {
namespace fs = std::filesystem;
namespace {

using testing::HasSubstr;

TEST_F(Commands, ValidateSaysWhatEvaluateNeeds) {
  alpaca("rows.jsonl", 20);
  const std::string file =
      recipe("r.yml", tiny_lora() + Keys{{"val_set_size", ""}, {"eval_steps", ""}, {"generate_samples", ""}});
  EXPECT_THAT(dml({"validate", file}).err, HasSubstr("has nothing to do; set val_set_size, test_datasets or evals"));
  const std::string evals = "[{name: a, prompts: [{prompt: x, expected: y}], checks: [exact]}]";
  EXPECT_THAT(dml({"validate", file, "--evals", evals}).err, testing::Not(HasSubstr("nothing to do")));
}

// With model and data on disk, everything that a later command would reject is reported at once.
TEST_F(Commands, ValidateOpensModelAndData) {
  alpaca("rows.jsonl", 20);
  const std::string lora = recipe("good.yml", tiny_lora());
  const Ended good = dml({"validate", lora});
  EXPECT_EQ(good.exit, 0) << good.err;
  EXPECT_THAT(good.out, HasSubstr("good.yml: good"));

  const Ended nothing =
      dml({"validate", lora, "--base_model", at("no/such/model"), "--datasets.0.path", at("none.jsonl")});
  EXPECT_EQ(nothing.exit, 2);
  EXPECT_EQ(nothing.out, "");
  EXPECT_THAT(nothing.err, HasSubstr("'base_model': no such file or directory: '" + at("no/such/model")));
  EXPECT_THAT(nothing.err, HasSubstr("'datasets.0.path': no such file or directory: '" + at("none.jsonl")));

  fs::create_symlink(at("loop"), at("loop"));
  const Ended loop = dml({"validate", lora, "--base_model", at("loop"), "--datasets.0.path", at("loop")});
  EXPECT_EQ(loop.exit, 2);
  for (const char* key : {"base_model", "datasets.0.path"})
    EXPECT_THAT(loop.err, HasSubstr(fmt::format("'{}': '{}' cannot be opened: Too many levels", key, at("loop"))));
  EXPECT_THAT(loop.err, testing::Not(HasSubstr("no such")));

  write("bad.jsonl", read_file(at("rows.jsonl")) + "{\"instruction\": 1}\nx\n");
  const Ended bad = dml({"validate", lora, "--datasets.0.path", at("bad.jsonl"), "--chat_template", "chatmll",
                         "--lora_target_modules", "[no_such_proj]", "--lora_target_linear", "false", "--optim_args",
                         "{momentum: 1}", "--output_dir", at("rows.jsonl")});
  EXPECT_EQ(bad.exit, 2);
  for (const char* line : {"bad.jsonl:21: ", "bad.jsonl:22: ", "command line: unknown chat_template ",
                           "did you mean 'chatml'?", "'no_such_proj' match no module",
                           "command line: optim_args: unknown argument 'momentum'", "command line: output_dir: "})
    EXPECT_THAT(bad.err, HasSubstr(line));
  EXPECT_EQ(std::ranges::count(bad.err, '\n'), 8) << bad.err;  // and how many rows were checked, and a warning
  EXPECT_FALSE(file_exists(at("prepared")));

  const Ended check = dml({"preprocess", lora, "--check", "--datasets.0.path", at("bad.jsonl")});
  EXPECT_EQ(check.exit, 2);
  EXPECT_EQ(std::ranges::count(check.out, '\n'), 2) << check.out;
  EXPECT_THAT(check.out, HasSubstr("bad.jsonl:22: "));
  EXPECT_THAT(check.err, HasSubstr("22 rows read, 2 problems"));
  const Ended skipped =
      dml({"preprocess", lora, "--check", "--on_bad_row", "skip", "--datasets.0.path", at("bad.jsonl")});
  EXPECT_EQ(skipped.exit, 0);
  EXPECT_THAT(skipped.out, HasSubstr("bad.jsonl:22: "));
  EXPECT_THAT(skipped.out, HasSubstr("22 rows read, 2 rows cannot be used (on_bad_row: skip)\n"));
  const Ended unharmed = dml({"preprocess", lora, "--check", "--quiet"});
  EXPECT_EQ(unharmed.exit, 0);
  EXPECT_THAT(unharmed.out, HasSubstr(" rows read, no problems\n"));
}

// A mistake in a setting does not hide what the disk would reject.
TEST_F(Commands, ValidateLooksAtTheDiskInSpiteOfMistakesInTheRecipe) {
  alpaca("rows.jsonl", 20);
  const Keys mistakes{{"sequence_len", "0"}, {"lora_rr", "8"}};
  const Ended absent = dml({"validate", recipe("absent.yml", tiny_lora() + mistakes + Keys{{"base_model", at("no")}}),
                            "--datasets.0.path", at("none.jsonl"), "--datasets.0.type", "alpacca"});
  EXPECT_EQ(absent.exit, 2);
  for (const char* text : {"sequence_len", "'lora_rr'", "'base_model': no such file or directory",
                           "'datasets.0.path': no such file or directory", "did you mean 'alpaca'?"})
    EXPECT_THAT(absent.err, HasSubstr(text));
  EXPECT_THAT(absent.err, HasSubstr("are checked when its settings are valid"));

  fs::create_directory(at("broken"));
  write("broken/config.json", R"({"model_type": "llamma"})");
  const Ended broken = dml({"validate", recipe("broken.yml", tiny_lora() + mistakes), "--base_model", at("broken")});
  EXPECT_THAT(broken.err, AllOf(HasSubstr("sequence_len"), HasSubstr("llamma")));
  write("bad.jsonl", read_file(at("rows.jsonl")) + "{\"instruction\": 1}\n");
  const Ended rows =
      dml({"validate", recipe("rows.yml", tiny_lora() + mistakes), "--datasets.0.path", at("bad.jsonl")});
  EXPECT_THAT(rows.err, AllOf(HasSubstr("sequence_len"), HasSubstr("'lora_rr'"), HasSubstr("bad.jsonl:21: ")));
}

// What plan and train would refuse.
TEST_F(Commands, ValidateChecksWhetherMetricsApply) {
  alpaca("rows.jsonl", 20);
  const Keys bits = tiny_lora() + Keys{{"eval_metrics", "[bits_per_byte]"}};
  EXPECT_EQ(dml({"validate", recipe("good.yml", bits)}).exit, 0);
  expect_refused(
      dml({"validate",
           recipe("weights.yml", bits + Keys{{"datasets", fmt::format("[{{path: {}, type: alpaca, field_weight: w}}]",
                                                                      at("rows.jsonl"))}})}),
      2, {"weights.yml:", "bits_per_byte does not work with weights of rows or messages"});
  std::string pairs;
  for (int i = 0; i < 20; ++i)
    pairs += fmt::format("{{\"prompt\": \"a {0}\", \"chosen\": \"b\", \"rejected\": \"c\"}}\n", i);
  write("pairs.jsonl", pairs);
  expect_refused(
      dml({"validate", recipe("pairs.yml", bits + Keys{{"rl", "dpo"},
                                                       {"datasets", fmt::format("[{{path: {}, type: passthrough}}]",
                                                                                at("pairs.jsonl"))}})}),
      2, {"pairs.yml:", "bits_per_byte needs the cross-entropy of tokens"});
  const Keys dpo =
      tiny_lora() + Keys{{"rl", "dpo"},
                         {"val_set_size", "4"},
                         {"datasets", fmt::format("[{{path: {}, type: passthrough}}]", at("pairs.jsonl"))}};
  EXPECT_EQ(dml({"validate", recipe("dpo.yml", dpo + Keys{{"metric_for_best_model", "eval_rewards/accuracies"}})}).exit,
            0);
  expect_refused(
      dml({"validate", recipe("dpo.yml", dpo + Keys{{"metric_for_best_model", "eval_ppl"}})}), 2,
      {"dpo.yml:", "'metric_for_best_model' is 'eval_ppl', which this run does not measure", "eval_rewards/margins"});
  const Keys evals =
      tiny_lora() + Keys{{"evals", "[{name: says, prompts: [{prompt: Hi, expected: Ho}], checks: [contains]}]"},
                         {"val_set_size", "0"}};
  EXPECT_EQ(dml({"validate", recipe("says.yml", evals + Keys{{"metric_for_best_model", "says_contains"}})}).exit, 0);
  const Keys split = tiny_lora() + Keys{{"val_set_size", "4"}, {"eval_metrics", "[bits_per_byte]"}};
  for (const char* metric : {"eval_ppl", "bits_per_byte"})
    EXPECT_EQ(dml({"validate", recipe("split.yml", split + Keys{{"metric_for_best_model", metric}})}).exit, 0)
        << metric;
  const Keys one = split + Keys{{"metric_for_best_model", "eval_rows_loss"}};
  expect_refused(dml({"validate", recipe("one.yml", one)}), 2,
                 {"'metric_for_best_model' is 'eval_rows_loss', which this run does not measure", "eval_loss"});
  const std::string twice = fmt::format("[{{path: {0}, type: alpaca}}, {{path: {0}, type: alpaca}}]", at("rows.jsonl"));
  EXPECT_EQ(dml({"validate", recipe("two.yml", one + Keys{{"datasets", twice}})}).exit, 0);
  expect_refused(dml({"validate", recipe("wrong.yml", split + Keys{{"metric_for_best_model", "eval_foo"}})}), 2,
                 {"'metric_for_best_model' is 'eval_foo', which this run does not measure", "eval_bits_per_byte"});
  expect_refused(dml({"validate", recipe("wrong.yml", evals + Keys{{"metric_for_best_model", "says_contians"}})}), 2,
                 {"wrong.yml:", "'metric_for_best_model' is 'says_contians', which this run does not measure",
                  "did you mean 'eval_says_contains'?"});
}

// Problems with model or data are reported with the line of the recipe that names them; by train, too.
TEST_F(Commands, ProblemsCarryTheLineOfTheirKey) {
  alpaca("rows.jsonl", 20);
  const auto named = [&](const std::string& name, const Keys& keys, const std::string& key, const std::string& text) {
    const std::string path = recipe(name, tiny_lora() + keys);
    const std::string lines = read_file(path);
    const auto line = std::ranges::count(lines.substr(0, lines.find("\n" + key + ":") + 1), '\n') + 1;
    const std::string place = fmt::format("{}:{}:{}: ", path, line, key.size() + 3);
    for (const char* command : {"validate", "train"}) {
      const Ended e = dml({command, path});
      EXPECT_EQ(e.exit, 2) << command;
      EXPECT_THAT(e.err, HasSubstr("error: " + place)) << command;
      EXPECT_THAT(e.err, HasSubstr(text)) << command;
    }
  };
  named("a.yml", {{"lora_target_linear", ""}, {"lora_target_modules", "[q_porj]"}}, "lora_target_modules",
        "'q_porj' match no module");
  named("loftq.yml",
        {{"base_model", DML_SOURCE_DIR "/tests/golden/packed/mlx"},
         {"tokenizer_config", base_directory()},
         {"peft_init_lora_weights", "loftq"}},
        "peft_init_lora_weights", "its weights are quantized already");
  named("layers.yml",
        {{"peft_layers_to_transform", "[1]"},
         {"peft_layers_pattern", "h"},
         {"lora_target_linear", ""},
         {"lora_target_modules", "[q_proj]"}},
        "peft_layers_pattern", "'h' is not the name of the list of layers");
  named("b.yml", {{"lora_modules_to_save", "[lm_haed]"}}, "lora_modules_to_save", "did you mean 'lm_head'?");
  named("c.yml", {{"peft_trainable_token_indices", "[99999]"}}, "peft_trainable_token_indices",
        "not in the vocabulary");
  named("d.yml", {{"optim_args", "{bta1: 0.9}"}}, "optim_args", "unknown argument 'bta1'");
  named("e.yml", {{"chat_template", "chatmll"}}, "chat_template", "did you mean 'chatml'?");
  write("file", "");
  named("f.yml", {{"output_dir", at("file")}}, "output_dir", "is a file");
  // The table of a list begins after its key.
  const std::string path =
      recipe("g.yml", tiny_lora() + Keys{{"lr_groups", "[{name: a, modules: [q_proj, no_such], lr: 1e-4}]"}});
  for (const char* command : {"validate", "train"}) {
    const Ended e = dml({command, path});
    EXPECT_EQ(e.exit, 2) << command;
    EXPECT_THAT(e.err, testing::ContainsRegex("g.yml:[0-9]+:[0-9]+: 'lr_groups.0.modules': no trained parameter has "
                                              "'no_such' in its name\n"))
        << command;
  }
}

// As a training does.
TEST_F(Commands, ValidateNamesFieldsAndPatternsThatNothingHas) {
  alpaca("rows.jsonl", 20);
  const Ended e =
      dml({"validate", recipe("a.yml", tiny_lora() + Keys{{"datasets", fmt::format("[{{path: {}, type: alpaca, "
                                                                                   "field_weight: wieght}}]",
                                                                                   at("rows.jsonl"))},
                                                          {"lora_rank_pattern", "{q_porj: 2}"}})});
  EXPECT_EQ(e.exit, 0) << e.err;
  EXPECT_THAT(e.err, AllOf(HasSubstr("no row has the field that 'field_weight: wieght' names"),
                           HasSubstr("lora_rank_pattern or lora_alpha_pattern: 'q_porj' matches no adapted module")));
}

// A dataset of moderate size is checked to its last row; validate reports how much it checked.
TEST_F(Commands, ValidateReadsEveryRowOfModerateData) {
  alpaca("rows.jsonl", 3000);
  const std::string lora = recipe("good.yml", tiny_lora());
  EXPECT_THAT(dml({"validate", lora}).err, HasSubstr("3 000 rows were checked\n"));
  write("bad.jsonl", read_file(at("rows.jsonl")) + "{\"instruction\": 1}\n");
  const Ended bad = dml({"validate", lora, "--datasets.0.path", at("bad.jsonl")});
  EXPECT_EQ(bad.exit, 2);
  EXPECT_THAT(bad.err, HasSubstr("bad.jsonl:3001: "));
  // 40 MB of it: the rows that were not read are named.
  std::string row = R"({"instruction": "Hi", "output": ")" + std::string(20000, 'y') + "\"}\n", large;
  for (int i = 0; i < 2000; ++i) large += row;
  write("large.jsonl", large + "x\n");
  const Ended part =
      dml({"validate", lora, "--datasets.0.path", at("large.jsonl"), "--excess_length_strategy", "truncate"});
  EXPECT_EQ(part.exit, 0) << part.err;
  EXPECT_THAT(part.err, testing::ContainsRegex("large.jsonl: 1 [0-9]+ rows were checked, the remaining rows were not"));
}

TEST_F(Commands, ValidateRejectsRunsLargerThanMemory) {
  alpaca("rows.jsonl", 20);
  Keys keys = tiny_model();
  keys["model_config"] =
      "{model_type: llama, vocab_size: 2048, hidden_size: 16384, intermediate_size: 65536, num_hidden_layers: 200, "
      "num_attention_heads: 128, num_key_value_heads: 128, max_position_embeddings: 256, tie_word_embeddings: true, "
      "bos_token_id: 1, eos_token_id: 2}";
  const std::string path = recipe("large.yml", keys);
  const Ended valid = dml({"validate", path});
  EXPECT_EQ(valid.exit, 2);
  EXPECT_THAT(valid.err, HasSubstr("not enough memory: this run needs 206"));  // … GB: 8.6e11 parameters and AdamW
  EXPECT_THAT(valid.err, HasSubstr("not enough disk space: this run writes at least "));
  EXPECT_EQ(dml({"train", path}).exit, 2);
}

// The memory that validate reports equals the plan of the run.
TEST_F(Commands, ValidateMeasuresTheMemoryOfTheRun) {
  alpaca("rows.jsonl", 60);
  const auto bytes = [](const std::string& text) {
    char unit[8] = "";
    double number = 0;
    std::sscanf(text.c_str(), "%lf %7[A-Za-z]", &number, unit);
    return number * (unit[0] == 'G' ? 1e9 : unit[0] == 'M' ? 1e6 : unit[0] == 'k' || unit[0] == 'K' ? 1e3 : 1);
  };
  Keys larger = tiny_model();  // some megabytes, as memory is told in megabytes
  larger["model_config"] =
      "{model_type: llama, vocab_size: 2048, hidden_size: 256, intermediate_size: 1024, num_hidden_layers: 4, "
      "num_attention_heads: 8, num_key_value_heads: 4, max_position_embeddings: 256, tie_word_embeddings: true, "
      "bos_token_id: 1, eos_token_id: 2}";
  ASSERT_EQ(train(1, recipe("base.yml", larger + Keys{{"max_steps", "1"}, {"output_dir", at("base")}})).exit, 0);
  const Keys lora{{"base_model", at("base")}, {"adapter", "lora"}, {"lora_r", "64"}, {"lora_target_linear", "true"}};
  const Keys kinds[] = {larger, lora, larger + Keys{{"optimizer", "adamw_8bit"}, {"micro_batch_size", "4"}},
                        lora + Keys{{"sample_packing", "true"}, {"gradient_checkpointing", "true"}}};
  int i = 0;
  for (const Keys& kind : kinds) {
    const std::string path = recipe(fmt::format("{}.yml", i++), kind);
    SCOPED_TRACE(read_file(path));
    const Ended valid = dml({"validate", path}), plan = dml({"plan", path});
    ASSERT_EQ(valid.exit, 0) << valid.err;
    ASSERT_EQ(plan.exit, 0) << plan.err;
    double planned = 0;
    for (const char* name : {"frozen weights (mapped)", "frozen weights (copied)", "trained weights", "gradients",
                             "optimizer state", "activations"})
      if (auto at = plan.out.find(fmt::format("\n{} ", name)); at != plan.out.npos)
        planned += bytes(plan.out.substr(at + 25));
    EXPECT_GT(planned, 10e6) << plan.out;
    const auto at = valid.err.find("training takes ");
    ASSERT_NE(at, valid.err.npos) << valid.err;
    EXPECT_NEAR(bytes(valid.err.substr(at + 15)), planned, 0.05 * planned + 2e6) << valid.err << plan.out;
  }
}

TEST_F(Commands, ValidateChecksTheRecipeAlone) {
  std::string good = recipe("good.yml", Keys{{"base_model", at("no/such/model")},
                                             {"datasets", "[{path: no/such/rows.jsonl, type: alpaca}]"}});
  Ended e = dml({"validate", good, "--recipe-only"});
  EXPECT_EQ(e.exit, 0) << e.err;
  EXPECT_THAT(e.err, HasSubstr("no/such/model"));
  std::string resolved = out_of({"validate", good, "--resolved", "--learning_rate", "1e-4"});
  EXPECT_THAT(resolved, HasSubstr("command line"));
  EXPECT_THAT(resolved, HasSubstr("good.yml:"));
  EXPECT_THAT(resolved, HasSubstr("default"));
  // What it prints is a recipe with the same values.
  std::string again = out_of({"validate", write("again.yml", resolved), "--resolved"});
  auto values = [](const std::string& text) {
    std::string kept;
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = std::min(text.find('\n', at), text.size());
      std::string line = text.substr(at, end - at);
      if (auto origin = line.find(" # "); origin != std::string::npos) line.resize(origin);
      kept += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
      at = end + 1;
    }
    return kept;
  };
  EXPECT_EQ(values(resolved), values(again));
  Ended bad = dml({"validate", write("bad.yml", "base_model: x\nlora_rr: 8\nlearning_rate: fast\n")});
  EXPECT_EQ(bad.exit, 2);
  EXPECT_THAT(bad.err, HasSubstr("bad.yml:2:1"));
  EXPECT_THAT(bad.err, HasSubstr("bad.yml:3:"));
  EXPECT_EQ(bad.out, "");
}

}  // namespace
}  // namespace dml::e2e
