// Invalid input of every kind: the answer is one clear line and the documented exit code, nothing is half-written, and
// the last checkpoint stays valid.
#include <gmock/gmock.h>

#include <filesystem>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace fs = std::filesystem;
namespace {

using testing::AllOf;
using testing::HasSubstr;

class BadInput : public Workshop {
 protected:
  void expect_not_trained(const Keys& keys, int exit, const Words& says) const {
    expect_refused(train(1, recipe("bad.yml", keys)), exit, says);
    EXPECT_FALSE(file_exists(at("out/model.safetensors")));
    EXPECT_FALSE(file_exists(at("out/adapter_model.safetensors")));
  }

  std::string copy_of_base(const std::string& name) const {
    fs::copy(base_directory(), at(name), fs::copy_options::recursive);
    return at(name);
  }

  Keys pre_tokenized(const std::string& path) const {
    return {{"datasets", fmt::format("[{{path: {}, ds_type: json, type: }}]", path)},
            {"val_set_size", "0"},
            {"eval_steps", ""}};
  }
};

TEST_F(BadInput, AnEmptyDataset) {
  write("rows.jsonl", "");
  expect_not_trained(tiny_model(), 2, {"rows.jsonl"});
}

TEST_F(BadInput, ARowThatIsNoJson) {
  write("rows.jsonl",
        "{\"instruction\": \"a\", \"output\": \"b\"}\n{\"instruction\": \"a\", \"output\": \"b\"}\n{\"instruction\": "
        "\"a\", \"out\n");
  expect_not_trained(tiny_model(), 2, {"rows.jsonl:3"});
}

TEST_F(BadInput, AMissingField) {
  write("rows.jsonl", "{\"instruction\": \"a\", \"output\": \"b\"}\n{\"instruction\": \"a\", \"outputs\": \"b\"}\n");
  expect_not_trained(tiny_model(), 2, {"rows.jsonl:2", "output"});
}

TEST_F(BadInput, EveryRowTooLong) {
  expect_not_trained(tiny_model() + Keys{{"sequence_len", "16"}}, 2, {"sequence_len", "44"});
}

TEST_F(BadInput, RowsWithoutALabeledToken) {
  std::string some, most;
  for (int i = 0; i < 10; ++i) {
    some += fmt::format(
        "{{\"input_ids\": [1, {0}, {0}, 2], \"attention_mask\": [1, 1, 1, 1], \"labels\": [-100, {1}, {1}, -100]}}\n",
        10 + i, i == 4 ? -100 : 10 + i);
    most += fmt::format(
        "{{\"input_ids\": [1, {0}, {0}, 2], \"attention_mask\": [1, 1, 1, 1], \"labels\": [-100, {1}, {1}, -100]}}\n",
        10 + i, i < 6 ? -100 : 10 + i);
  }
  Ended kept = dml({"preprocess", recipe("some.yml", tiny_model() + pre_tokenized(write("some.jsonl", some)))});
  EXPECT_EQ(kept.exit, 0) << kept.err;
  EXPECT_THAT(kept.err, HasSubstr("10 rows → 9 examples"));
  EXPECT_THAT(kept.err, HasSubstr("dropped 1: no trained tokens, first"))
      << "the dropped row is counted and its reason named";
  expect_not_trained(tiny_model() + pre_tokenized(write("most.jsonl", most)), 2, {"6", "10", "trained"});
}

TEST_F(BadInput, ABaseModelWhoseShapesDisagreeWithItsConfig) {
  std::string base = copy_of_base("base");
  Json config = parse_json(read_file(base + "/config.json"), "config");
  config["intermediate_size"] = 96;
  write("base/config.json", config.dump());
  Ended e = train(1, recipe("bad.yml", tiny_lora() + Keys{{"base_model", base}}));
  EXPECT_EQ(e.exit, 2);
  EXPECT_THAT(e.err,
              AllOf(HasSubstr("model.layers.0.mlp.gate_proj.weight"), HasSubstr("[64, 32]"), HasSubstr("[96, 32]")));
  EXPECT_FALSE(file_exists(at("out/adapter_model.safetensors")));
}

TEST_F(BadInput, ATruncatedWeightsFile) {
  std::string base = copy_of_base("base"), weights = base + "/model.safetensors";
  fs::resize_file(weights, fs::file_size(weights) - 1000);
  expect_not_trained(tiny_lora() + Keys{{"base_model", base}}, 2, {"model.safetensors"});
  fs::resize_file(weights, 5);
  expect_not_trained(tiny_lora() + Keys{{"base_model", base}}, 2, {"model.safetensors"});
}

TEST_F(BadInput, AnAdapterOfAnotherModel) {
  Keys wide = tiny_model();
  wide["model_config"].replace(wide["model_config"].find("hidden_size: 32"), 15, "hidden_size: 48");
  ASSERT_EQ(train(1, recipe("wide.yml", wide + Keys{{"output_dir", at("wide")}, {"max_steps", "1"}})).exit, 0);
  ASSERT_EQ(
      train(1, recipe("other.yml",
                      tiny_lora() + Keys{{"base_model", at("wide")}, {"output_dir", at("other")}, {"max_steps", "1"}}))
          .exit,
      0);
  Ended e = train(1, recipe("bad.yml", tiny_lora() + Keys{{"lora_model_dir", at("other")}}));
  EXPECT_EQ(e.exit, 2);
  EXPECT_THAT(e.err, AllOf(HasSubstr(at("other")), HasSubstr("lora_A"), HasSubstr("48"), HasSubstr("32")));
  EXPECT_FALSE(file_exists(at("out/adapter_model.safetensors")));
  expect_refused(dml({"infer", "--base-model", base_directory(), "--adapter", at("nowhere"), "--prompt", "a"}), 2,
                 {at("nowhere")});
}

TEST_F(BadInput, AnAdapterConfigIsWrongOnce) {
  ASSERT_EQ(train(1, recipe("r.yml", tiny_lora() + Keys{{"output_dir", at("first")}, {"max_steps", "1"}})).exit, 0);
  const std::string config = at("first/adapter_config.json");
  Json fields = read_json(config);
  fields["layers_to_transform"] = {99};
  write("first/adapter_config.json", dump(fields));
  const std::string next = recipe("next.yml", tiny_lora() + Keys{{"lora_model_dir", at("first")}});
  for (const Ended& e : {dml({"validate", next}), train(1, next)}) {
    EXPECT_EQ(e.exit, 2) << e.err;
    const std::size_t once = e.err.find("there is no layer 99");
    ASSERT_NE(once, std::string::npos) << e.err;
    EXPECT_EQ(e.err.find("there is no layer 99", once + 1), std::string::npos) << e.err;
    EXPECT_THAT(e.err, HasSubstr("next.yml:"));
    EXPECT_THAT(e.err, HasSubstr(config + ": layers_to_transform"));
  }
}

TEST_F(BadInput, AnOutputDirectoryThatIsTheBaseDirectory) {
  std::string base = copy_of_base("base");
  auto before = results_in(base);
  for (std::string same : {base, base + "/", base + "/../base"})
    expect_refused(train(1, recipe("bad.yml", tiny_lora() + Keys{{"base_model", base}, {"output_dir", same}})), 2,
                   {"output_dir"});
  EXPECT_EQ(results_in(base), before);
}

TEST_F(BadInput, AnOutputThatIsAnInput) {
  alpaca("rows.jsonl", 8);
  const std::string rows = at("rows.jsonl"), r = recipe("r.yml", tiny_lora());
  const std::string ask = write("ask.jsonl", "{\"prompt\": \"What is a cat?\"}\n");
  const std::string batch = write("batch.jsonl", "{\"custom_id\": \"a\", \"method\": \"POST\", \"body\": {}}\n");
  fs::create_symlink(rows, at("link.jsonl"));
  const std::map<std::string, std::string> before = results_in(folder_);
  for (const Words& words : {Words{"score", r, "--output", rows}, Words{"score", r, "--output", at("link.jsonl")},
                             Words{"score", r, "--output", r}, Words{"inspect", r, "--html", r},
                             Words{"report", at("out"), "--output", rows},
                             Words{"infer", "--base-model", base_directory(), "--input", ask, "--output", ask},
                             Words{"infer", r, "--adapter", "none", "--input", ask, "--output", rows},
                             Words{"serve", "--base-model", base_directory(), "--input", batch, "--output", batch},
                             Words{"init", base_directory(), rows, "--force", "--output", rows}})
    expect_refused(dml(words), 2, {words[words.size() - 2] + ": " + words.back()});
  EXPECT_EQ(results_in(folder_), before);
}

// Before any work, since nothing of it could be kept.
TEST_F(BadInput, AnOutputThatIsAFolder) {
  alpaca("rows.jsonl", 8);
  const std::string rows = at("rows.jsonl"), r = recipe("r.yml", tiny_lora());
  const std::string ask = write("ask.jsonl", "{\"prompt\": \"What is a cat?\"}\n");
  const std::string batch = write("batch.jsonl", "{\"custom_id\": \"a\", \"method\": \"POST\", \"body\": {}}\n");
  fs::create_directory(at("folder"));
  const std::map<std::string, std::string> before = results_in(folder_);
  for (const std::string& place : {at("folder"), at("none/")})
    for (const Words& words : {Words{"score", r, "--output", place}, Words{"inspect", r, "--html", place},
                               Words{"report", at("out"), "--output", place},
                               Words{"infer", "--base-model", base_directory(), "--input", ask, "--output", place},
                               Words{"serve", "--base-model", base_directory(), "--input", batch, "--output", place}})
      expect_refused(dml(words), 2, {words[words.size() - 2] + ": " + place + " is a folder; name a file in it"});
  for (const Words& words : {Words{"merge", r, "--output", at("m.gguf")},
                             Words{"convert", base_directory(), "--dtype", "bf16", "--output", at("m.gguf")}})
    expect_refused(dml(words), 2, {"m.gguf is the name of a GGUF file; add --format gguf"});
  for (const Words& words : {Words{"merge", r, "--format", "gguf", "--output", at("m")},
                             Words{"convert", base_directory(), "--format", "gguf", "--output", at("m")}})
    expect_refused(dml(words), 2, {"m is not the name of a GGUF file; name one that ends in .gguf"});
  EXPECT_EQ(results_in(folder_), before);
}

TEST_F(BadInput, WordsThatWouldHaveNoEffect) {
  alpaca("rows.jsonl", 8);
  const std::string r = recipe("r.yml", tiny_model() + Keys{{"dataset_prepared_path", at("prepared")}});
  const Json summary = parse_json(dml({"inspect", r, "--json"}).out, "inspect");
  const std::string prepared = summary["folder"];
  const std::string no_recipe = "--lora_r: keys of a recipe go with a RECIPE";
  expect_refused(dml({"infer", "--base-model", base_directory(), "--prompt", "x", "--output", at("o")}), 2,
                 {"--output is for the answers to --input FILE"});
  expect_refused(dml({"infer", "--base-model", base_directory(), "--prompt", "x", "--lora_r", "3"}), 2, {no_recipe});
  expect_refused(dml({"inspect", prepared, "--lora_r", "3"}), 2, {no_recipe});
  expect_refused(dml({"doctor", "--lora_r", "3"}), 2, {no_recipe});
  expect_refused(dml({"score", base_directory(), "--input", at("rows.jsonl"), "--lora_r", "3"}), 2, {no_recipe});
  expect_refused(dml({"inspect", r, "--model", base_directory()}), 2, {"--model is for a prepared folder"});
  expect_refused(dml({"inspect", r, "--rows", "-1"}), 2, {"--rows: must be at least 1, is -1"});
  expect_refused(dml({"inspect", r, "--random", "0"}), 2, {"--random: must be at least 1, is 0"});
  expect_refused(dml({"inspect", r, "--dropped", "--split", "validation"}), 2, {"--split requires one of --row"});
  expect_refused(dml({"inspect", r, "--ids"}), 2, {"--ids requires one of --row"});
  expect_refused(dml({"inspect", r, "--scores", at("s"), "--json", "--ids"}), 2, {"--ids shows tokens"});
  expect_refused(dml({"launch", "-n", "2", "--interface", "eth0", "train", r}), 2, {"--interface requires --hostfile"});
  expect_refused(dml({"score", base_directory(), "--input", at("rows.jsonl"), "--adapter", at("a")}), 2,
                 {"--adapter requires a recipe"});
  expect_refused(dml({"score", base_directory(), "--input", at("rows.jsonl"), "--resume"}), 2,
                 {"--resume requires --output"});
  expect_refused(dml({"tokenize", "--model", base_directory(), "--text", "[1]", "--decode", "--special"}), 2,
                 {"--special is for texts"});
  expect_refused(dml({"ckpt", "verify", at("out"), "--force"}), 2, {"--force is for rm"});
  expect_refused(dml({"preprocess", r, "--rebuild", "--check"}), 2, {"--check writes nothing: leave out --rebuild"});
  expect_refused(dml({"infer", r, "--greedy", "--temperature", "1", "--prompt", "x"}), 2,
                 {"--greedy takes the most likely token"});
  expect_refused(dml({"plan", r, "--ranks", "2", "--lr"}), 2, {"set either --ranks or --lr"});
  expect_refused(dml({"plan", r, "--ranks", "2", "--ranks-per-host", "4294967297"}), 2, {"--ranks-per-host"});
  expect_refused(dml({"help", "train", "x"}), 2, {"unexpected argument 'x'"});
  const std::string grid = write("grid.yml", "learning_rate: [1e-4]\n");
  expect_refused(dml({"sweep", r, "--grid", grid, "--output", at("sweep"), "--output_dir", at("x")}), 2,
                 {"--output_dir: every run gets its own folder inside --output"});
  expect_refused(dml({"sweep", r, "--grid", grid, "--output", grid}), 2, {"grid.yml is a file"});
}

TEST_F(BadInput, AModelInTheRecipesPlace) {
  const std::string gguf = write("m.gguf", "GGUF"), folder = copy_of_base("model");
  fs::remove(folder + "/recipe.yml");  // a result of dml has one
  for (const std::string& model : {folder, gguf})
    expect_refused(dml({"infer", model, "--prompt", "x"}), 2,
                   {model + ": is a model, not a recipe", "--base-model " + model});
  expect_refused(dml({"train", at("")}), 2, {"is a directory; name the recipe file in it"});
}

TEST_F(BadInput, AnUnknownCommandOptionOrRecipe) {
  expect_refused(dml({"trian", "r.yml"}), 2, {"trian", "did you mean 'train'"});
  expect_refused(dml({"merge-lora", "r.yml"}), 2, {"unknown command 'merge-lora'; did you mean 'merge'?"});
  expect_refused(dml({"inference", "r.yml"}), 2, {"unknown command 'inference'; did you mean 'infer'?"});
  expect_refused(dml({"train", at("none.yml")}), 2, {"none.yml"});
  expect_refused(dml({"train"}), 2, {"RECIPE"});
  std::string good = recipe("good.yml", tiny_model());
  expect_refused(dml({"train", good, "--learning_rat", "1"}), 2, {"learning_rat", "learning_rate"});
  expect_refused(dml({"infer", good, "--promt", "x"}), 2, {"--promt", "--prompt"});
  expect_refused(dml({"infer", good, "--prompt", "x", "--prompt", "y"}), 2, {"--prompt is given twice"});
  for (const char* seed : {"-1", "99999999999999999999"})
    expect_refused(dml({"infer", "--base-model", base_directory(), "--prompt", "x", "--seed", seed}), 2, {"--seed"});
  expect_refused(dml({"validate", good, "extra"}), 2, {"extra"});
  expect_refused(dml({"inspect", good, "--row", "x"}), 2, {"row"});
}

TEST_F(BadInput, AFullDiskWhileSaving) {
  Keys keys = tiny_model() + Keys{{"save_steps", "1"}};
  Ended stopped = train(1, recipe("a.yml", keys + Keys{{"max_time", "0.001"}}));
  ASSERT_EQ(stopped.exit, 75) << stopped.err;
  auto before = results_in(at("out/checkpoint-1"));
  Surroundings full;
  full.file_limit = 100'000;  // a checkpoint's weights have 600 KB
  std::string good = recipe("b.yml", keys);
  expect_refused(train(1, good, {"--resume", "auto"}, full), 5, {"model.safetensors", "arge"});  // "File too large"
  EXPECT_FALSE(file_exists(at("out/checkpoint-2")));
  EXPECT_EQ(results_in(at("out/checkpoint-1")), before);
  Ended resumed = train(1, good, {"--resume", "auto"});
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("Resuming from"));
}

TEST_F(BadInput, AFullDiskWhilePreparing) {
  Surroundings full;
  full.file_limit = 1000;
  expect_refused(dml({"preprocess", recipe("r.yml", tiny_model())}, full), 5, {"prepared"});
  EXPECT_EQ(dml({"preprocess", at("r.yml")}).exit, 0);
}

TEST_F(BadInput, AnOutputDirectoryThatCannotBeMade) {
  write("file", "");
  Ended e = train(1, recipe("r.yml", tiny_model() + Keys{{"output_dir", at("file/out")}}));
  EXPECT_TRUE(e.exit == 2 || e.exit == 5) << e.exit;
  EXPECT_THAT(e.err, HasSubstr(at("file")));
}

TEST_F(BadInput, ALearningRateThatBreaksTheWeights) {
  Keys keys = tiny_model() + Keys{{"optimizer", "sgd"}, {"learning_rate", "100"},   {"lr_scheduler", "constant"},
                                  {"save_steps", "1"},  {"save_total_limit", "20"}, {"max_grad_norm", "0"}};
  expect_refused(train(1, recipe("r.yml", keys)), 4, {"step", "learning_rate"});
  Ended known = train(1, at("r.yml"), {"--resume", at("out/checkpoint-1")});
  EXPECT_EQ(known.exit, 4) << "the checkpoint before it is whole: " << known.err;
  EXPECT_FALSE(file_exists(at("out/model.safetensors")));
  if (has_mpirun()) {
    EXPECT_EQ(train(2, recipe("two.yml", keys + Keys{{"output_dir", at("two")}})).exit, 4);
  }
}

TEST_F(BadInput, ADamagedCheckpoint) {
  Keys keys = tiny_lora() + Keys{{"save_steps", "5"}};
  std::string good = recipe("r.yml", keys);
  ASSERT_EQ(train(1, good).exit, 0);
  std::string weights = at("out/checkpoint-10/adapter_model.safetensors"), bytes = read_file(weights);
  bytes[bytes.size() - 9] ^= 1;
  write("out/checkpoint-10/adapter_model.safetensors", bytes);
  expect_refused(train(1, good, {"--resume", at("out/checkpoint-10")}), 2, {"adapter_model.safetensors", "damaged"});
  Ended resumed = train(1, good, {"--resume", "auto"});
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_THAT(resumed.err, AllOf(HasSubstr("skipped"), HasSubstr("checkpoint-5")));
  expect_refused(train(1, good, {"--resume", at("nowhere")}), 2, {at("nowhere")});
}

TEST_F(BadInput, AResumeWithAnotherRecipeOrOtherData) {
  Keys keys = tiny_lora() + Keys{{"save_steps", "5"}};
  ASSERT_EQ(train(1, recipe("r.yml", keys)).exit, 0);
  expect_refused(train(1, at("r.yml"), {"--resume", at("out/checkpoint-5"), "--learning_rate", "1e-4"}), 2,
                 {"The recipe changed since this checkpoint: learning_rate 0.005 → 0.0001"});
  alpaca("rows.jsonl", 44, 3);
  expect_refused(train(1, at("r.yml"), {"--resume", at("out/checkpoint-5")}), 2, {"data"});
}

TEST_F(BadInput, OnOneOfSeveralRanks) {
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there";
  write("rows.jsonl", "{\"instruction\": \"a\", \"out\n");
  Ended e = train(2, recipe("r.yml", tiny_model()));
  EXPECT_EQ(e.exit, 2);
  EXPECT_THAT(e.err, HasSubstr("rows.jsonl:1"));
  EXPECT_FALSE(e.timed_out);
  EXPECT_EQ(e.err.find("error: "), e.err.rfind("error: ")) << "said by more than one rank:\n" << e.err;
}

}  // namespace
}  // namespace dml::e2e
