// Every optimizer under every strategy, on threads that act as ranks: the weights of one rank, byte for byte, also
// where one rank resumes from the checkpoint of several. DML_LONG=1: all combinations; otherwise one strategy each, by
// turns.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "assembly/recipe_names.h"
#include "core/files.h"
#include "core/log.h"
#include "dist/comm.h"
#include "dist/thread_ranks.h"
#include "optim/optimizer.h"
#include "pipeline/train.h"
#include "temporary_folder.h"

namespace dml {
namespace {

using Settings = std::map<std::string, std::string>;

// A way to train: its name, and what it sets.
struct Rule {
  std::string name;
  Settings settings;
};

std::vector<Rule> every_rule() {
  std::vector<Rule> rules;
  for (const auto& row : optimizers().rows()) {
    Rule rule{row.name, {{"optimizer", row.name}}};
    if (row.make.takes_targets) {
      rule.settings["optim_target_modules"] = "all-linear";
      rule.settings["optim_args"] =
          row.name == "apollo_mini" ? "{update_proj_gap: 3}" : "{rank: 4, update_proj_gap: 3}";
    }
    if (row.name.starts_with("schedule_free")) rule.settings["lr_scheduler"] = "constant";
    rules.push_back(rule);
  }
  for (const char* rounding : {"kahan", "stochastic"})
    rules.push_back(
        {fmt::format("adamw, weights in bf16, {}", rounding), {{"optimizer", "adamw"}, {"bf16_weights", rounding}}});
  rules.push_back({"muon, weights in bf16", {{"optimizer", "muon"}, {"bf16_weights", "kahan"}}});
  rules.push_back({"lion with an average", {{"optimizer", "lion"}, {"ema_decay", "0.9"}}});
  rules.push_back({"adafactor, relative",
                   {{"optimizer", "adafactor"}, {"optim_args", "{relative_step: true, scale_parameter: true}"}}});
  return rules;
}

constexpr const char* kStrategies[] = {"ddp", "zero1", "zero2", "zero3", "hybrid"};

class EveryOptimizer : public testing::Test {
 protected:
  EveryOptimizer() {
    set_log_level(LogLevel::error);
    name_choices();
    std::string rows;
    for (int i = 0; i < 40; ++i)
      rows += fmt::format("{{\"instruction\": \"Tell me about number {}.\", \"output\": \"It is {} more than {}.\"}}\n",
                          i, i % 5, i - i % 5);
    write_file(folder_ / "rows.jsonl", rows);
  }
  ~EveryOptimizer() override { set_log_level(LogLevel::info); }

  /// The weights that training writes; the output folder is gone afterwards, but for `keep`.
  std::string weights(const Settings& settings, int ranks, const std::string& resume = "none", bool keep = false) {
    const std::string output = folder_ / fmt::format("run-{}", ++runs_);
    Settings all{
        {"tokenizer_config", DML_SOURCE_DIR "/datasets/quickstart/tokenizer"},
        {"model_config",
         "{model_type: llama, vocab_size: 2048, hidden_size: 32, intermediate_size: 128, num_hidden_layers: 2, "
         "num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 128, rms_norm_eps: 1.0e-5, "
         "tie_word_embeddings: true, initializer_range: 0.06, bos_token_id: 1, eos_token_id: 2}"},
        {"datasets", fmt::format("[{{path: {}, type: alpaca}}]", folder_ / "rows.jsonl")},
        {"dataset_prepared_path", folder_ / "prepared"},
        {"sequence_len", "96"},
        {"micro_batch_size", "1"},
        {"batch_size", "8"},
        {"max_steps", "4"},
        {"save_steps", "2"},
        {"learning_rate", "1e-4"},
        {"warmup_steps", "1"},
        {"weight_decay", "0.1"},
        {"threads", "1"},
        {"output_dir", output}};
    for (auto& [key, value] : settings) all[key] = value;
    std::string text;
    for (auto& [key, value] : all) text += fmt::format("{}: {}\n", key, value);
    const RecipeFile file = read_recipe(text, "recipe.yml");
    run_thread_ranks(ranks, [&](Comm& comm) { EXPECT_EQ(train(file, comm, {.resume = resume}), ExitCode::ok); });
    const std::string bytes = read_file(output + "/model.safetensors");
    if (keep) last_ = output;
    else std::filesystem::remove_all(output);
    return bytes;
  }

  void agrees(const Rule& rule, const std::string& one, const std::string& strategy, int ranks) {
    SCOPED_TRACE(fmt::format("{}, {} on {} ranks", rule.name, strategy, ranks));
    Settings spread = rule.settings;
    spread["distribution"] = strategy;
    if (strategy.starts_with("hybrid")) spread["dp_shard_size"] = "2";
    EXPECT_TRUE(weights(spread, ranks, "none", true) == one) << "differs from one rank";
    const std::string folder = last_;
    EXPECT_TRUE(weights(rule.settings, 1, folder + "/checkpoint-2") == one) << "differs when one rank resumes";
    std::filesystem::remove_all(folder);
  }

  testing_tools::TemporaryFolder folder_;
  std::string last_;  // the output folder that was kept
  int runs_ = 0;
};

TEST_F(EveryOptimizer, HasTheBitsOfOneRankAndResumes) {
  std::set<std::string> results;
  std::size_t turn = 0;
  const std::vector<Rule> rules = every_rule();
  for (const Rule& rule : rules) {
    const std::string one = weights(rule.settings, 1);
    EXPECT_TRUE(results.insert(one).second) << rule.name << " trains as another optimizer does";
    agrees(rule, one, kStrategies[turn % std::size(kStrategies)], turn % 2 ? 4 : 2);
    ++turn;
  }
  EXPECT_GE(rules.size(), 20u);
}

TEST_F(EveryOptimizer, LongHasTheBitsOfOneRankUnderEveryStrategy) {
  if (!std::getenv("DML_LONG")) GTEST_SKIP() << "DML_LONG is not set";
  for (const Rule& rule : every_rule()) {
    const std::string one = weights(rule.settings, 1);
    for (const char* strategy : kStrategies)
      for (const int ranks : {2, 4}) agrees(rule, one, strategy, ranks);
  }
  fmt::print("{} runs: the bits of one rank\n", runs_);
}

// The owner of a whole matrix keeps the second set of its weights, other ranks those of their slices.
TEST_F(EveryOptimizer, AveragesWholeMatricesThatAreSharded) {
  const Settings average{{"optimizer", "muon"}, {"ema_decay", "0.9"}};
  const std::string one = weights(average, 1);
  EXPECT_FALSE(one == weights({{"optimizer", "muon"}}, 1)) << "the average is the training point";
  for (const char* strategy : {"zero1", "zero2", "zero3", "hybrid"})
    agrees({"muon with an average", average}, one, strategy, strategy == std::string_view("zero2") ? 2 : 4);
}

TEST_F(EveryOptimizer, MovesTheReferenceOfWholeMatricesThatAreSharded) {
  std::string pairs;
  for (int i = 0; i < 16; ++i)
    pairs +=
        fmt::format(R"({{"prompt": "Number {0}?", "chosen": "It is {0}.", "rejected": "It is not {1}."}})", i, i % 3) +
        "\n";
  write_file(folder_ / "pairs.jsonl", pairs);
  Settings moving{{"optimizer", "muon"},
                  {"rl", "dpo"},
                  {"datasets", fmt::format("[{{path: {}, type: passthrough}}]", folder_ / "pairs.jsonl")},
                  {"trl", "{sync_ref_model: true, ref_model_mixup_alpha: 0.5, ref_model_sync_steps: 1}"}};
  const std::string one = weights(moving, 1);
  for (const char* strategy : {"zero1", "zero3"}) {
    moving["distribution"] = strategy;
    EXPECT_TRUE(weights(moving, 2) == one) << strategy;
  }
  moving["trl"] = "{sync_ref_model: false}";
  EXPECT_FALSE(weights(moving, 2) == one) << "the reference does not move";
}

}  // namespace
}  // namespace dml
