// The problems of a job that are found before it runs.
#include "pipeline/preflight.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "model/golden.h"
#include "temporary_folder.h"

namespace dml {
namespace {

TEST(Preflight, ReportsWrongTargetsOnceWhenTheVocabularyGrows) {
  const testing_tools::TemporaryFolder folder;
  std::filesystem::copy(golden_path("tokenizer") + "/spm_bpe.model", folder / "tokenizer.model");
  const auto tokenizer = load_tokenizer(folder.path());
  Recipe recipe;
  recipe.model.base_model = golden_path("llama_tiny") + "/model";
  recipe.train.output_dir = folder / "out";
  recipe.optim.optimizer = "adamw";
  recipe.adapter.adapter = AdapterKind::lora;
  recipe.adapter.lora_target_modules.regex = "nothing.*";
  const BaseModel base = open_base_model(recipe.model);
  ASSERT_GT(tokenizer->size(), base.spec.vocab);
  int targets = 0;
  for (const Problem& problem : training_problems(recipe, base, *tokenizer))
    targets += problem.text.find("'nothing.*'") != std::string::npos;
  EXPECT_EQ(targets, 1);
}

}  // namespace
}  // namespace dml
