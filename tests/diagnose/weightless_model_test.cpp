// Memory of a base that is counted without reading it: what its file holds, as it is stored there.
#include "diagnose/weightless_model.h"

#include <gtest/gtest.h>

#include "assembly/base_model.h"
#include "assembly/memory_plan.h"
#include "assembly/recipe_names.h"
#include "checkpoint/model_config.h"
#include "exchange/gguf_export.h"
#include "exchange/gguf_file.h"
#include "exchange/gguf_model.h"
#include "temporary_folder.h"

namespace dml {
namespace {

Recipe qlora() {
  name_choices();
  Recipe recipe;
  recipe.adapter.adapter = AdapterKind::qlora;
  recipe.adapter.load_in_4bit = true;
  recipe.adapter.lora_r = 4;
  recipe.adapter.lora_target_linear = true;
  recipe.data.sequence_len = 32;
  return recipe;
}

// A base in blocks keeps them: load_in_4bit does not make NF4 of it.
TEST(WeightlessModel, CountsABaseInBlocksAsItsFileHasIt) {
  const ModelSpec spec = read_model_config({{"model_type", "llama"},
                                            {"vocab_size", 96},
                                            {"hidden_size", 256},
                                            {"intermediate_size", 512},
                                            {"num_hidden_layers", 2},
                                            {"num_attention_heads", 4},
                                            {"max_position_embeddings", 64}},
                                           "llama");
  auto ones = [](const WeightName& w, std::int64_t, std::int64_t count, float* out) {
    std::fill_n(out, count * w.cols, 1.f);
  };
  std::size_t smaller = 0;
  for (const char* type : {"q4_k_m", "q8_0", "f16"}) {
    const testing_tools::TemporaryFolder folder;
    const std::string path = folder / "model.gguf";
    write_gguf({"name", folder.path(), spec, gguf_file_type(type), ones}, path);
    BaseModel base;
    base.spec = spec, base.directory = path;
    base.files = std::make_shared<ModelFiles>(gguf_weights(std::make_shared<GgufFile>(path), spec));
    Recipe recipe = qlora();
    if (type == std::string("f16")) recipe.adapter.load_in_4bit = false;
    const std::size_t frozen = WeightlessModel(recipe, spec, storage_of(base)).plan(32, 1).frozen;
    EXPECT_EQ(frozen, base.bytes()) << type;
    EXPECT_GT(frozen, smaller) << type;
    smaller = frozen;
  }
}

// A new model is written in float32, one of a base of two bytes a weight in its type.
TEST(WeightlessModel, CountsTheResultInTheTypeInWhichItIsWritten) {
  name_choices();
  const ModelSpec spec = read_model_config({{"model_type", "llama"},
                                            {"vocab_size", 96},
                                            {"hidden_size", 64},
                                            {"intermediate_size", 128},
                                            {"num_hidden_layers", 2},
                                            {"num_attention_heads", 4},
                                            {"max_position_embeddings", 64}},
                                           "llama");
  const auto parameters = static_cast<std::size_t>(spec.parameters());
  Recipe full;
  full.data.sequence_len = 32;
  const BaseStorage from_scratch, narrow{.directory = "base", .matrices = DType::bf16, .blocks = {}};
  EXPECT_EQ(WeightlessModel(full, spec, from_scratch).result_bytes(), 4 * parameters);
  EXPECT_EQ(WeightlessModel(full, spec, narrow).result_bytes(), 2 * parameters);
  EXPECT_EQ(WeightlessModel(full, spec, narrow).checkpoint_bytes(), (4 + 8) * parameters);
  full.optim.bf16_weights = Bf16Weights::stochastic;
  EXPECT_EQ(WeightlessModel(full, spec, from_scratch).result_bytes(), 2 * parameters);
  EXPECT_EQ(WeightlessModel(full, spec, from_scratch).checkpoint_bytes(), (2 + 8) * parameters);
  full.train.save_only_model = true;
  full.adapter.unfrozen_parameters = {"model.norm.weight"};  // the rest is not rounded
  EXPECT_EQ(WeightlessModel(full, spec, from_scratch).result_bytes(), 4 * parameters);
  EXPECT_EQ(WeightlessModel(full, spec, from_scratch).checkpoint_bytes(), 4 * parameters);
  EXPECT_EQ(WeightlessModel(full, spec, narrow).checkpoint_bytes(), 2 * parameters);
}

}  // namespace
}  // namespace dml
