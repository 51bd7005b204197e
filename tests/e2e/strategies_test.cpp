// Every strategy on every number of ranks and every storage of the base gives the adapter of one rank, byte for byte.
// What is exact only for its own number of ranks (gradients in bfloat16) is so across a restart, too.
#include <cstdlib>
#include <filesystem>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace fs = std::filesystem;
namespace {

// Ten steps of eight micro-batches.
Keys eight() {
  return {{"batch_size", "8"}, {"max_steps", "10"}, {"num_epochs", "20"}, {"eval_steps", ""}, {"val_set_size", ""}};
}

const std::map<std::string, Keys>& bases() {
  static const std::map<std::string, Keys> all{{"f32", {{"frozen_storage", "f32"}}},
                                               {"bf16", {{"frozen_storage", "bf16"}}},
                                               {"nf4", {{"adapter", "qlora"}, {"load_in_4bit", "true"}}}};
  return all;
}

class Strategies : public Workshop {
 protected:
  void SetUp() override {
    if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there";
    alpaca("rows.jsonl", 60);
  }

  std::map<std::string, std::string> trained(const std::string& name, const Keys& keys, int ranks,
                                             const Words& more = {}) {
    Ended e = train(ranks, recipe(name + ".yml", keys + Keys{{"output_dir", at(name)}}), more);
    EXPECT_EQ(e.exit, 0) << name << ": " << e.err;
    return e.exit == 0 ? results_in(at(name)) : std::map<std::string, std::string>{};
  }

  // Hybrid strategies in groups of two where the number of ranks is even, else of all ranks.
  static Keys distributed(const std::string& strategy, int ranks) {
    Keys keys{{"distribution", strategy}};
    if (strategy.starts_with("hybrid")) keys["dp_shard_size"] = std::to_string(ranks % 2 == 0 ? 2 : ranks);
    if (strategy == "zero3") keys["shard_frozen_weights"] = "true";
    return keys;
  }

  int agree(const std::string& base, const std::vector<std::string>& strategies, const std::vector<int>& ranks_tried) {
    Keys keys = tiny_lora() + bases().at(base) + eight();
    auto one = trained(base, keys, 1);
    EXPECT_FALSE(one.empty());
    int runs = 0;
    for (auto& strategy : strategies)
      for (int ranks : ranks_tried) {
        std::string name = fmt::format("{}-{}-{}", base, strategy, ranks);
        EXPECT_TRUE(trained(name, keys + distributed(strategy, ranks), ranks) == one)
            << name << " differs from one rank";
        EXPECT_EQ(numbers_of(at(name + "/metrics.jsonl")), numbers_of(at(base + "/metrics.jsonl"))) << name;
        fs::remove_all(at(name));
        ++runs;
      }
    return runs;
  }

  // Saved during the run and resumed from there: the same result.
  void goes_on(const Keys& keys, int ranks) {
    auto whole = trained("whole", keys + Keys{{"save_steps", "4"}, {"save_total_limit", "20"}}, ranks);
    ASSERT_FALSE(whole.empty());
    for (int step : {4, 8}) {
      EXPECT_TRUE(trained("resumed", keys, ranks, {"--resume", at(fmt::format("whole/checkpoint-{}", step))}) == whole)
          << "from step " << step;
      fs::remove_all(at("resumed"));
    }
  }
};

TEST_F(Strategies, GiveTheSameAdapter) {
  agree("bf16", {"zero1", "zero3", "hybrid", "hybrid_zero2"}, {4});
  agree("nf4", {"ddp", "zero2", "hybrid"}, {2});
}

TEST_F(Strategies, LongGiveTheSameAdapterInEveryCase) {
  if (!long_form()) GTEST_SKIP() << "DML_LONG is not set";
  int runs = 0;
  for (auto& [base, keys] : bases())
    runs += agree(base, {"ddp", "zero1", "zero2", "zero3", "hybrid", "hybrid_zero2"}, {1, 2, 4, 8});
  fmt::print("{} runs give the adapters of one rank, byte for byte\n", runs);
}

// Sums over uneven shares are those of the same tree.
TEST_F(Strategies, LongWorkOnUnevenRanks) {
  if (!long_form()) GTEST_SKIP() << "DML_LONG is not set";
  int runs = 0;
  for (auto& [base, keys] : bases())
    runs += agree(base, {"ddp", "zero1", "zero2", "zero3", "hybrid", "hybrid_zero2"}, {3, 5, 6});
  fmt::print("{} runs on 3, 5 and 6 ranks give the adapters of one rank, byte for byte\n", runs);
}

// Of a tied model: copies of embedding and head, one copy that both share, single rows, and rows of new tokens.
TEST_F(Strategies, GiveTheSameAdapterWhateverItDoesToEmbeddingAndHead) {
  const Keys kinds[] = {{{"lora_modules_to_save", "[embed_tokens, lm_head]"}},
                        {{"lora_modules_to_save", "[embed_tokens, lm_head]"}, {"peft_ensure_weight_tying", "true"}},
                        {{"peft_trainable_token_indices", "[9, 5, 31]"}},
                        {{"tokens", "[\"<new>\", \"<newer>\"]"},
                         {"peft_trainable_token_indices", "{embed_tokens: [2048, 2049], lm_head: [2049]}"}}};
  for (const Keys& kind : kinds) {
    SCOPED_TRACE(kind.begin()->second);
    const Keys keys = tiny_lora() + eight() + Keys{{"max_steps", "4"}, {"save_steps", "2"}} + kind;
    const auto one = trained("one", keys, 1);
    ASSERT_FALSE(one.empty());
    for (auto [strategy, ranks] : {std::pair{"zero1", 2}, {"zero2", 2}, {"zero3", 3}}) {
      EXPECT_TRUE(trained(strategy, keys + distributed(strategy, ranks), ranks) == one) << strategy;
      EXPECT_TRUE(trained("resumed", keys, 1, {"--resume", at(std::string(strategy) + "/checkpoint-2")}) == one)
          << strategy;
      for (const char* folder : {strategy, "resumed"}) fs::remove_all(at(folder));
    }
    fs::remove_all(at("one"));
  }
}

// lora_bias, bias: all and bias: lora_only come with an adapter that training starts from (tests/golden/adapters, which
// fit a Qwen2 model of tiny_model()'s shape).
TEST_F(Strategies, GiveTheSameAdapterWhereItTrainsBiases) {
  Keys base = tiny_model() + eight() + Keys{{"max_steps", "1"}};
  std::string& config = base["model_config"];
  config.replace(config.find("llama"), 5, "qwen2");
  ASSERT_FALSE(trained("base", base, 1).empty());
  for (const char* name : {"lora_bias", "bias_all", "bias_lora_only"}) {
    SCOPED_TRACE(name);
    const std::string start = DML_SOURCE_DIR "/tests/golden/adapters/" + std::string(name);
    const Keys keys = eight() + Keys{{"base_model", at("base")},
                                     {"adapter", "lora"},
                                     {"lora_model_dir", start},
                                     {"max_steps", "4"},
                                     {"save_steps", "2"}};
    const auto one = trained("one", keys, 1);
    ASSERT_FALSE(one.empty());
    EXPECT_NE(one.at("adapter_model.safetensors"), read_file(start + "/adapter_model.safetensors"));
    for (auto [strategy, ranks] : {std::pair{"zero1", 2}, {"zero2", 2}, {"zero3", 3}}) {
      EXPECT_TRUE(trained(strategy, keys + distributed(strategy, ranks), ranks) == one) << strategy;
      EXPECT_TRUE(trained("resumed", keys, 1, {"--resume", at(std::string(strategy) + "/checkpoint-2")}) == one)
          << strategy;
      for (const char* folder : {strategy, "resumed"}) fs::remove_all(at(folder));
    }
    fs::remove_all(at("one"));
  }
}

// Untied head and embedding: their buffers share memory.
TEST_F(Strategies, GiveTheSameModelWhereTheHeadIsNotTied) {
  Keys keys = tiny_model() + eight() +
              Keys{{"max_steps", "4"},
                   {"load_best_model_at_end", "true"},
                   {"val_set_size", "4"},
                   {"eval_steps", "2"},
                   {"save_steps", "2"}};
  std::string& config = keys["model_config"];
  config.replace(config.find("embeddings: true"), 16, "embeddings: false");
  auto one = trained("one", keys, 1);
  ASSERT_FALSE(one.empty());
  for (auto [strategy, ranks] : {std::pair{"zero2", 3}, {"zero3", 3}, {"hybrid", 4}})
    EXPECT_TRUE(trained(strategy, keys + distributed(strategy, ranks), ranks) == one) << strategy;
}

// Experts in full, whose products are made together where all are there and one by one where they are sharded; then
// adapters on their parameters, over frozen experts that are sharded, too.
TEST_F(Strategies, GiveTheSameMixtureOfExperts) {
  Keys full = tiny_model() + eight() + Keys{{"max_steps", "3"}};
  std::string& config = full["model_config"];
  config.replace(config.find("llama"), 5, "mixtral");
  config.replace(config.find("}"), 1, ", num_local_experts: 4, num_experts_per_tok: 2, output_router_logits: true}");
  const auto one = trained("one", full, 1);
  ASSERT_FALSE(one.empty());
  EXPECT_TRUE(trained("threads", full + Keys{{"threads", "3"}}, 1) == one);
  for (auto [strategy, ranks] : {std::pair{"zero1", 2}, {"zero2", 2}, {"zero3", 3}})
    EXPECT_TRUE(trained(strategy, full + distributed(strategy, ranks), ranks) == one) << strategy;

  const Keys adapter = eight() + Keys{{"max_steps", "3"},
                                      {"base_model", at("one")},
                                      {"adapter", "lora"},
                                      {"lora_r", "4"},
                                      {"lora_target_modules", "[q_proj]"},
                                      {"lora_target_parameters", "[experts.gate_up_proj, experts.down_proj]"}};
  for (const Keys& base : {Keys{}, Keys{{"adapter", "qlora"}, {"load_in_4bit", "true"}}}) {
    const auto alone = trained("alone", adapter + base, 1);
    ASSERT_FALSE(alone.empty());
    for (auto [strategy, ranks] : {std::pair{"ddp", 2}, {"zero3", 2}})
      EXPECT_TRUE(trained(strategy, adapter + base + distributed(strategy, ranks), ranks) == alone) << strategy;
  }
}

// The same over frozen experts in bfloat16, with products of factors in bfloat16, and a shared expert beside them.
TEST_F(Strategies, GiveTheSameMixtureOfExpertsInBf16) {
  Keys full = tiny_model() + eight() + Keys{{"max_steps", "2"}, {"bf16", "true"}};
  std::string& config = full["model_config"];
  config.replace(config.find("llama"), 5, "qwen2_moe");
  config.replace(
      config.find("}"), 1,
      ", num_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 32, shared_expert_intermediate_size: 32}");
  const auto one = trained("one", full, 1);
  ASSERT_FALSE(one.empty());
  EXPECT_TRUE(trained("four", full + distributed("zero3", 4), 4) == one);

  const Keys adapter = eight() + Keys{{"max_steps", "2"},
                                      {"bf16", "true"},
                                      {"base_model", at("one")},
                                      {"adapter", "lora"},
                                      {"lora_r", "4"},
                                      {"frozen_storage", "bf16"},
                                      {"lora_target_modules", "[q_proj, shared_expert.up_proj, experts.1.down_proj]"}};
  const auto alone = trained("alone", adapter, 1);
  ASSERT_FALSE(alone.empty());
  EXPECT_TRUE(trained("threads", adapter + Keys{{"threads", "3"}}, 1) == alone);
  for (auto [strategy, ranks] : {std::pair{"ddp", 2}, {"zero3", 4}})
    EXPECT_TRUE(trained(strategy, adapter + distributed(strategy, ranks), ranks) == alone) << strategy;
}

// gpt-oss stores its experts the other way round, gate and up in turn.
TEST_F(Strategies, ResumeWithTransposedExperts) {
  Keys full = tiny_model() + eight();
  std::string& config = full["model_config"];
  config.replace(config.find("llama"), 5, "gpt_oss");
  config.replace(config.find("}"), 1,
                 ", head_dim: 8, sliding_window: 16, num_local_experts: 4, num_experts_per_tok: 2}");
  goes_on(full, 1);
}

TEST_F(Strategies, ResumeFromHybridsCheckpoints) {
  Keys full = tiny_model() + eight();
  goes_on(full + distributed("hybrid", 4), 4);
  // And another strategy from there.
  auto whole = results_in(at("whole"));
  EXPECT_TRUE(trained("other", full + Keys{{"distribution", "zero1"}}, 2, {"--resume", at("whole/checkpoint-4")}) ==
              whole);
}

TEST_F(Strategies, WithGradientsInBf16ResumeExactlyOnTheSameRanks) {
  Keys half = tiny_model() + eight() + Keys{{"comm_dtype", "bf16"}};
  for (const char* strategy : {"ddp", "zero3"}) {
    goes_on(half + Keys{{"distribution", strategy}}, 2);
    fs::remove_all(at("whole"));
  }
  auto whole = trained("whole", half + Keys{{"save_steps", "4"}}, 2);
  auto exact = trained("exact", half + Keys{{"save_steps", "4"}}, 1);  // nothing is sent
  EXPECT_FALSE(whole == exact);
  auto loss = [&](const char* name) {
    return json_lines(at(std::string(name) + "/metrics.jsonl")).back()["loss"].get<double>();
  };
  EXPECT_NEAR(loss("whole"), loss("exact"), 0.01 * loss("exact"));
  Ended e =
      train(4, recipe("four.yml", half + Keys{{"output_dir", at("four")}}), {"--resume", at("whole/checkpoint-4")});
  EXPECT_EQ(e.exit, 0) << e.err;
  EXPECT_NE(e.err.find("bits differ from those of an uninterrupted run"), e.err.npos) << e.err;
  // One rank sends nothing, so it has no place for the stored errors.
  e = train(1, recipe("one.yml", half + Keys{{"output_dir", at("one")}}), {"--resume", at("whole/checkpoint-4")});
  EXPECT_EQ(e.exit, 0) << e.err;
  EXPECT_NE(e.err.find("the rounding errors it carried are lost"), e.err.npos) << e.err;
  e = train(1, recipe("alone.yml", half + Keys{{"output_dir", at("alone")}}), {"--resume", at("exact/checkpoint-4")});
  EXPECT_EQ(e.exit, 0) << e.err;
  EXPECT_EQ(e.err.find("rounding errors"), e.err.npos) << e.err;  // none were stored
}

// So few weights train that some ranks have no state of the optimizer: they write checkpoints as the others do.
TEST_F(Strategies, SaveWhereSomeRanksOwnNothing) {
  const Keys keys = eight() + Keys{{"base_model", base_directory()},
                                   {"unfrozen_parameters", "[\"model.norm.weight\"]"},
                                   {"max_steps", "4"},
                                   {"save_steps", "2"}};
  const auto one = trained("one", keys, 1);
  ASSERT_FALSE(one.empty());
  for (auto [strategy, ranks] : {std::pair{"zero1", 2}, {"zero2", 3}, {"zero3", 2}}) {
    EXPECT_TRUE(trained(strategy, keys + distributed(strategy, ranks), ranks) == one) << strategy;
    EXPECT_TRUE(trained("resumed", keys, 1, {"--resume", at(std::string(strategy) + "/checkpoint-2")}) == one)
        << strategy;
    fs::remove_all(at("resumed"));
  }
}

// The ranks together hold more than one may: zero3 trains, saves and resumes where ddp cannot start.
TEST_F(Strategies, TrainAModelThatIsTooLargeForOneRank) {
  Keys large = tiny_model() + eight() +
               Keys{{"max_steps", "2"}, {"batch_size", "4"}, {"save_steps", "1"}, {"sequence_len", "64"}};
  large["model_config"] =
      "{model_type: llama, vocab_size: 2048, hidden_size: 512, intermediate_size: 1376, num_hidden_layers: 12, "
      "num_attention_heads: 8, num_key_value_heads: 8, max_position_embeddings: 256, tie_word_embeddings: true, "
      "initializer_range: 0.02, bos_token_id: 1, eos_token_id: 2}";
  // 39 million parameters: 156 MB of weights, as much of gradients, twice that of AdamW's state.
  auto limited = [&](const std::string& strategy, const std::string& out, const Words& more = {}) {
    std::string path = recipe(out + ".yml", large + Keys{{"distribution", strategy}, {"output_dir", at(out)}});
    std::string line = "ulimit -v 1120000; exec " + dml_path() + " train " + path;
    for (auto& word : more) line += " " + word;
    return run(
        {"mpirun", "--oversubscribe", "--bind-to", "none", "-np", "4", "sh", "-c", line},
        {.environment = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                         "OPENBLAS_NUM_THREADS=1"}});  // else addresses go to the stack of a thread for every core
  };
  Ended whole = limited("ddp", "ddp");
  EXPECT_EQ(whole.exit, 7) << whole.err;
  Ended parts = limited("zero3", "zero3");
  EXPECT_EQ(parts.exit, 0) << parts.err;
  Ended resumed = limited("zero3", "again", {"--resume", at("zero3/checkpoint-1")});
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_TRUE(results_in(at("zero3")) == results_in(at("again")));
}

}  // namespace
}  // namespace dml::e2e
