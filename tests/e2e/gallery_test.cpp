// The recipes of recipes/gallery, planned and trained for two steps: as they are, but for a small model and some rows
// in the places that they name.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace fs = std::filesystem;
namespace {

using testing::HasSubstr;

class Gallery : public Workshop {
 protected:
  void SetUp() override {
    around_.folder = folder_;
    fs::create_directories(at("data/documents"));
    std::string chat, instructions, texts, questions, tools;
    for (int i = 0; i < 60; ++i) {
      const std::string question = fmt::format("What is number {}?", i), answer = fmt::format("It is {}.", i * i);
      const Json messages = {{{"role", "user"}, {"content", question}}, {{"role", "assistant"}, {"content", answer}}};
      chat += dump(Json{{"messages", messages}}) + "\n";
      instructions += dump(Json{{"instruction", question}, {"input", ""}, {"output", answer}}) + "\n";
      texts += dump(Json{{"text", question + " " + answer}}) + "\n";
      write(fmt::format("data/documents/{}.txt", i), question + " " + answer + " ");
    }
    for (int i = 0; i < 2; ++i) {
      questions += dump(Json{{"prompt", "What is it?"}, {"expected", "It"}}) + "\n";
      tools += dump(Json{{"messages", {{{"role", "user"}, {"content", "Call it."}}}}, {"expected", "it"}}) + "\n";
    }
    for (const char* name : {"chat", "tools", "reasoning"}) write(fmt::format("data/{}.jsonl", name), chat);
    write("data/instructions.jsonl", instructions);
    write("data/stories.jsonl", texts);
    write("data/sums.jsonl", questions);
    write("data/tools-questions.jsonl", tools);
  }
  /// `words`: the recipe, and keys for two steps into the folder "out".
  void expect_planned_and_trained(const Words& words) {
    for (const char* command : {"plan", "train"}) {
      Words all = words;
      all.insert(all.begin(), command);
      const Ended e = dml(all, around_);
      EXPECT_EQ(e.exit, 0) << command << ": " << e.err;
    }
    EXPECT_THAT(read_file(at("out/metrics.jsonl")), HasSubstr("{\"step\":2,"));
    fs::remove_all(at("out"));
  }
  Surroundings around_;
};

TEST_F(Gallery, IsPlannedAndTrainedInSmokeForm) {
  const bool all = std::getenv("DML_LONG") != nullptr;
  const fs::path folder = fs::path(DML_SOURCE_DIR) / "recipes/gallery";
  int trained = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    const bool chosen = all || name == "qwen3-1.7b-full-bf16" || name == "mistral-7b-qlora-completion" ||
                        name == "phi-3-mini-qlora-reasoning";
    if (entry.path().extension() != ".yml" || !chosen) continue;
    SCOPED_TRACE(name);
    Words small{entry.path().string(),
                "--max_steps",
                "2",
                "--micro_batch_size",
                "1",
                "--output_dir",
                "out",
                "--threads",
                "1",
                "--sequence_len",
                "128",
                "--val_set_size",
                "4"};
    const bool scratch = name.find("from-scratch") != std::string::npos;
    if (scratch) small.insert(small.end(), {"--tokenizer_config", base_directory()});
    else small.insert(small.end(), {"--base_model", base_directory(), "--chat_template", "chatml"});
    expect_planned_and_trained(small);
    ++trained;
    if (scratch || (!all && name != "qwen3-1.7b-full-bf16")) continue;
    for (const Words& way : {Words{"--adapter", "none", "--load_in_4bit", "false"},
                             Words{"--adapter", "lora", "--load_in_4bit", "false", "--lora_target_linear", "true",
                                   "--lora_r", "4", "--lora_alpha", "8"},
                             Words{"--adapter", "qlora", "--load_in_4bit", "true", "--lora_target_linear", "true",
                                   "--lora_r", "4", "--lora_alpha", "8"}}) {
      SCOPED_TRACE(way[1]);
      Words changed = small;
      changed.insert(changed.end(), way.begin(), way.end());
      expect_planned_and_trained(changed);
    }
  }
  EXPECT_GE(trained, all ? 15 : 3);
}

}  // namespace
}  // namespace dml::e2e
