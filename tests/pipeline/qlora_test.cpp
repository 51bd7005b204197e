// QLoRA from the recipe to the adapter: a run over a 4-bit base learns what a run over the same values in float32 does.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>

#include "assembly/base_model.h"
#include "assembly/model_output.h"
#include "checkpoint/quantization_config.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "dist/comm.h"
#include "dist/thread_ranks.h"
#include "pipeline/convert.h"
#include "pipeline/merge.h"
#include "pipeline/run_plan.h"
#include "pipeline/train.h"
#include "temporary_folder.h"

namespace dml {
namespace {
namespace fs = std::filesystem;

class Qlora : public testing::Test {
 protected:
  using Keys = std::map<std::string, std::string>;

  static void SetUpTestSuite() {
    set_log_level(LogLevel::error);
    root_ = std::make_unique<testing_tools::TemporaryFolder>();
    std::string rows;
    for (int i = 0; i < 24; ++i)
      rows += fmt::format("{{\"instruction\": \"Tell me about number {}.\", \"output\": \"It is {} more than {}.\"}}\n",
                          i, i % 5, i - i % 5);
    write_file(at("rows.jsonl"), rows);
    run(recipe({{"output_dir", at("base")},
                {"max_steps", "3"},
                {"model_config",
                 "{model_type: llama, vocab_size: 2048, hidden_size: 64, intermediate_size: 96, num_hidden_layers: 2, "
                 "num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 256, rms_norm_eps: 1.0e-5, "
                 "rope_theta: 10000.0, tie_word_embeddings: true, initializer_range: 0.06, bos_token_id: 1, "
                 "eos_token_id: 2}"}}));
  }
  static void TearDownTestSuite() {
    root_.reset();
    set_log_level(LogLevel::info);
  }

  static std::string at(const std::string& name) { return *root_ / name; }

  static RecipeFile recipe(const Keys& keys) {
    Keys all{{"tokenizer_config", DML_SOURCE_DIR "/datasets/quickstart/tokenizer"},
             {"datasets", fmt::format("[{{path: {}, type: alpaca}}]", at("rows.jsonl"))},
             {"dataset_prepared_path", at("prepared")},
             {"sequence_len", "96"},
             {"micro_batch_size", "1"},
             {"batch_size", "4"},
             {"max_steps", "5"},
             {"learning_rate", "5e-3"},
             {"save_strategy", "no"},
             {"threads", "1"}};
    for (auto& [key, value] : keys) all[key] = value;
    std::string text;
    for (auto& [key, value] : all) text += fmt::format("{}: {}\n", key, value);
    return read_recipe(text, "recipe.yml");
  }

  static Keys adapter(const std::string& kind, const std::string& base, const std::string& output) {
    return {{"base_model", at(base)},
            {"adapter", kind},
            {"lora_r", "4"},
            {"lora_dropout", "0.1"},
            {"lora_target_linear", "true"},
            {"output_dir", at(output)},
            {"activation_storage", "f32"}};
  }

  static void run(const RecipeFile& file, int ranks = 1) {
    run_thread_ranks(ranks, [&](Comm& comm) { EXPECT_EQ(train(file, comm, {}), ExitCode::ok); });
  }

  // Losses, gradient norms and the adapter's bytes.
  static std::string result(const std::string& output) {
    std::string out, text = read_file(at(output) + "/metrics.jsonl");
    for (std::size_t begin = 0; begin < text.size();) {
      std::size_t end = text.find('\n', begin);
      Json row = parse_json(text.substr(begin, end - begin), output);
      if (row.contains("loss")) out += fmt::format("{} {}\n", dump(row["loss"]), dump(row.value("grad_norm", Json())));
      begin = end + 1;
    }
    return out + read_file(at(output) + "/adapter_model.safetensors");
  }

  // The base of a recipe as a model folder of its own.
  static void write_base(const Recipe& r, const std::string& to, DType dtype = DType::f32) {
    BaseModel base = open_base_model(r.model, r.adapter);
    auto model = make_inference_model(base, std::nullopt);
    make_directories(at(to));
    write_model_directory(at(to), base, *model, dtype);
  }

  inline static std::unique_ptr<testing_tools::TemporaryFolder> root_;
};

TEST_F(Qlora, ANonFiniteBaseIsRejectedByName) {
  std::string folder = at("damaged"), file = folder + "/model.safetensors";
  fs::copy(at("base"), folder);
  std::string bytes = read_file(file);
  bytes.replace(bytes.size() - 2, 2, "\xff\x7f");  // the upper half of a NaN, and all of one in 16 bits
  write_file(file, bytes);
  for (const char* kind : {"lora", "qlora"}) try {
      run(recipe(adapter(kind, "damaged", "never")));
      ADD_FAILURE() << kind;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("is NaN or infinite at ["), std::string::npos) << error.what();
    }
  EXPECT_FALSE(fs::exists(at("never") + "/adapter_model.safetensors"));
}

TEST_F(Qlora, ActivationsInSixteenBitsDoNotChangeTheLoss) {
  auto last_losses = [](const std::string& output) {
    std::string text = read_file(at(output) + "/metrics.jsonl");
    double sum = 0;
    for (int step = 41; step <= 50; ++step) {
      std::size_t line = text.find(fmt::format("\"step\":{},", step));
      std::size_t begin = text.rfind('\n', line) + 1;
      sum += parse_json(text.substr(begin, text.find('\n', line) - begin), output).at("loss").get<double>();
    }
    return sum / 10;
  };
  Keys keys = adapter("qlora", "base", "f32");
  keys["max_steps"] = "50";
  keys["learning_rate"] = "1e-3";
  run(recipe(keys));
  for (const char* storage : {"bf16", "auto"}) {  // auto: rounded, the base is quantized
    keys["activation_storage"] = storage;
    keys["output_dir"] = at(storage);
    run(recipe(keys));
  }
  EXPECT_NE(result("bf16"), result("f32"));
  EXPECT_EQ(result("auto"), result("bf16"));
  EXPECT_NEAR(last_losses("bf16"), last_losses("f32"), 2e-3);
}

TEST_F(Qlora, MatchesLoraOverTheDequantizedBase) {
  RecipeFile four = recipe(adapter("qlora", "base", "nf4"));
  run(four);
  write_base(four.recipe, "base-nf4");
  run(recipe(adapter("lora", "base-nf4", "nf4-in-f32")));
  EXPECT_EQ(result("nf4"), result("nf4-in-f32"));

  // Of a base in bf16 the values are bf16: written so they lose nothing.
  write_base(recipe(adapter("lora", "base", "unused")).recipe, "half", DType::bf16);
  RecipeFile half = recipe(adapter("qlora", "half", "nf4-of-half"));
  run(half);
  for (auto [name, dtype] : {std::pair{"half-nf4", DType::bf16}, {"half-nf4-in-f32", DType::f32}}) {
    write_base(half.recipe, name, dtype);
    Keys keys = adapter("lora", name, fmt::format("of-{}", name));
    keys["frozen_storage"] = "f32";
    run(recipe(keys));
    EXPECT_EQ(result("nf4-of-half"), result(fmt::format("of-{}", name)));
  }

  RecipeFile eight = recipe(adapter("lora", "base", "int8"));
  eight.recipe.adapter.load_in_8bit = true;
  run(eight);
  write_base(eight.recipe, "base-int8");
  run(recipe(adapter("lora", "base-int8", "int8-in-f32")));
  EXPECT_EQ(result("int8"), result("int8-in-f32"));
  EXPECT_NE(result("int8"), result("nf4"));
}

TEST_F(Qlora, ThreadsAndRanksDoNotChangeTheResult) {
  run(recipe(adapter("qlora", "base", "one")));
  Keys threads = adapter("qlora", "base", "threads"), ranks = adapter("qlora", "base", "ranks");
  threads["threads"] = "2";
  ranks["quantized_cache_path"] = at("cache-of-ranks");
  run(recipe(threads));
  run(recipe(ranks), 2);
  EXPECT_EQ(result("one"), result("threads"));
  EXPECT_EQ(result("one"), result("ranks"));
  std::size_t folders = 0;
  for (auto& entry : fs::directory_iterator(at("cache-of-ranks"))) folders += entry.is_directory();
  EXPECT_EQ(folders, 1u);
}

TEST_F(Qlora, TheMemoryPlanCountsCodesAndScales) {
  RecipeFile file = recipe(adapter("qlora", "base", "plan"));
  auto comm = make_self_comm();
  RunPlan plan(file, *comm);
  // 64-bit arithmetic of the layers: q, o 64 × 64, k, v 32 × 64, gate, up, down 64 × 96; the embedding and five norms.
  std::size_t linear = 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 96);
  // Of 14 matrices: codes, a byte for every scale, and two numbers for these.
  EXPECT_EQ(plan.memory.frozen, linear / 2 + linear / 64 + 14 * 2 * 4 + 2048 * 64 * 4);
  EXPECT_EQ(plan.memory.owned, 5u * 64 * 4);
}

TEST_F(Qlora, MergesIntoTheBaseThatWasTrainedOn) {
  RecipeFile file = recipe(adapter("qlora", "base", "trained"));
  run(file);
  merge(file, {}, at("merged"));
  RecipeFile same = recipe(adapter("lora", "base-of-merge", "trained"));
  write_base(file.recipe, "base-of-merge");
  merge(same, {at("trained")}, at("merged-in-f32"));
  EXPECT_EQ(read_file(at("merged") + "/model.safetensors"), read_file(at("merged-in-f32") + "/model.safetensors"));
}

TEST_F(Qlora, TheAdapterSaysHowItsBaseWasQuantized) {
  Keys keys = adapter("qlora", "base", "says");
  keys["save_strategy"] = "steps";
  keys["save_steps"] = "5";
  run(recipe(keys));
  convert({.input = at("says"), .output = at("converted"), .format = "peft", .base_model = at("base")});
  for (const char* folder : {"says", "says/checkpoint-5", "converted"})
    EXPECT_EQ(read_quantization_config(at(folder)), DType::nf4) << folder;
  run(recipe(adapter("lora", "base", "says")));
  EXPECT_FALSE(read_quantization_config(at("says"))) << "of the run before";
}

TEST_F(Qlora, LayersThatTheAdapterSavesWholeStartFromTheirOwnValues) {
  Keys keys = adapter("qlora", "base", "saved");
  keys["lora_modules_to_save"] = "[model.layers.0.mlp.down_proj]";
  keys["lora_target_linear"] = "false";
  keys["lora_target_modules"] = "[q_proj]";
  RecipeFile file = recipe(keys);
  BaseModel base = open_base_model(file.recipe.model, file.recipe.adapter);
  TrainableModel trainable = make_trainable_model(base, file.recipe.model, file.recipe.adapter, 1);
  const Linear& down = trainable.model->layers[0].mlp.down;
  ASSERT_TRUE(down.weight);
  auto original = base.files->find("model.layers.0.mlp.down_proj.weight")->floats("");
  EXPECT_EQ(std::vector<float>(down.weight.value().data, down.weight.value().data + original.size()), original);
  EXPECT_EQ(trainable.model->layers[1].mlp.down.frozen.dtype, DType::nf4);
}

}  // namespace
}  // namespace dml
