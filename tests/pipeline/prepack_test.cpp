// Whether a run keeps packed copies of its weights: by prepack_weights, or by what they save and take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "dist/comm.h"
#include "dist/thread_ranks.h"
#include "kernels/processor.h"
#include "pipeline/run_plan.h"
#include "temporary_folder.h"

namespace dml {
namespace {

class Prepack : public testing::Test {
 protected:
  using Keys = std::map<std::string, std::string>;

  void SetUp() override {
    set_log_level(LogLevel::error);
    std::string rows;
    for (int i = 0; i < 24; ++i) rows += fmt::format("{{\"text\": \"This is row {} of a few.\"}}\n", i);
    write_file(folder_ / "rows.jsonl", rows);
  }
  void TearDown() override {
    kernels::use_precision(DType::f32);
    set_log_level(LogLevel::info);
  }

  RecipeFile recipe(const Keys& keys) {
    Keys all{{"tokenizer_config", DML_SOURCE_DIR "/datasets/quickstart/tokenizer"},
             {"model_config",
              "{model_type: llama, vocab_size: 2048, hidden_size: 64, intermediate_size: 96, num_hidden_layers: 2, "
              "num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 256, rms_norm_eps: 1.0e-5, "
              "tie_word_embeddings: true, bos_token_id: 1, eos_token_id: 2}"},
             {"datasets", fmt::format("[{{path: {}, type: completion}}]", folder_ / "rows.jsonl")},
             {"dataset_prepared_path", folder_ / "prepared"},
             {"output_dir", folder_ / "out"},
             {"sequence_len", "64"},
             {"micro_batch_size", "1"},
             {"batch_size", "4"},
             {"max_steps", "5"},
             {"learning_rate", "1e-3"}};
    for (auto& [key, value] : keys) all[key] = value;
    std::string text;
    for (auto& [key, value] : all) text += fmt::format("{}: {}\n", key, value);
    return read_recipe(text, "recipe.yml", {}, RecipeUse::measure);  // an adapter on random weights serves here
  }
  // Bytes of copies that a run plans.
  std::size_t planned(DType precision, const Keys& keys) {
    kernels::use_precision(precision);
    const RecipeFile file = recipe(keys);
    auto comm = make_self_comm();
    const RunPlan plan(file, *comm);
    EXPECT_EQ(plan.memory.packed > 0, plan.model().packed != nullptr);
    bool listed = false;
    for (auto& [name, bytes] : plan.memory.rows()) listed |= name == "packed weights" && bytes == plan.memory.packed;
    EXPECT_EQ(listed, plan.memory.packed > 0);
    return plan.memory.packed;
  }

  testing_tools::TemporaryFolder folder_;
};

// q, o 64 × 64, k, v 32 × 64, gate, up, down 64 × 96.
constexpr std::size_t kLinear = 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 96);

TEST_F(Prepack, UnsetKeepsCopiesWhereTheySaveTime) {
  const std::size_t kept = planned(DType::bf16, {});
  // For two directions, in bf16 or as rounded float32.
  const std::size_t least = (kernels::has_fast_bf16() ? 4 : 8) * kLinear;
  EXPECT_GE(kept, least);
  EXPECT_LT(kept, least * 5 / 4);  // panels are filled up
  EXPECT_EQ(planned(DType::f32, {}), 0u);
  EXPECT_EQ(planned(DType::bf16, {{"batch_size", "1"}}), 0u);  // each would be read once
}

TEST_F(Prepack, TheRecipeDecides) {
  EXPECT_EQ(planned(DType::bf16, {{"prepack_weights", "false"}}), 0u);
  EXPECT_GE(planned(DType::f32, {{"prepack_weights", "true"}}), 8 * kLinear);
  EXPECT_GT(planned(DType::bf16, {{"prepack_weights", "true"}, {"batch_size", "1"}}), 0u);
}

TEST_F(Prepack, UnsetKeepsNoneThatAreLargeBesideTheRest) {
  const Keys wide{
      {"model_config",
       "{model_type: llama, vocab_size: 2048, hidden_size: 768, intermediate_size: 3072, "
       "num_hidden_layers: 4, num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 256, "
       "rms_norm_eps: 1.0e-5, tie_word_embeddings: true, bos_token_id: 1, eos_token_id: 2}"},
      {"adapter", "lora"},
      {"lora_r", "4"},
      {"lora_target_linear", "true"},
      {"frozen_storage", "bf16"}};
  EXPECT_EQ(planned(DType::bf16, wide), 0u);
}

TEST_F(Prepack, WeightsThatMoveHaveNone) {
  run_thread_ranks(2, [&](Comm& comm) {
    const RecipeFile file = recipe({{"distribution", "zero3"}, {"prepack_weights", "true"}});
    try {
      const RunPlan plan(file, comm);
      ADD_FAILURE() << "expected an error";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("prepack_weights: true needs weights that stay in place"));
    }
  });
}

}  // namespace
}  // namespace dml
