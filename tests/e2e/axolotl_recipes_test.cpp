// Axolotl's own recipes as their users bring them: not a byte of them changed, models and datasets fetched to where the
// recipe names them. Each goes through dml preprocess, or is refused with the keys that are not supported. The models
// here are tokenizers of the same family, the datasets some rows of the format that the recipe asks for.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace fs = std::filesystem;
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int kRows = 40;

struct Family {
  const char *in_name, *tokenizer;
};
constexpr Family kFamilies[] = {
    {"Llama-3", "llama3"}, {"Llama", "llama2"}, {"Mistral", "mistral-v1"}, {"Qwen", "qwen2.5"}};

// Rows of a `type`, with the fields that the dataset's own keys name.
Json row_of(const Json& dataset, int i) {
  const std::string type = dataset["type"], question = fmt::format("What is number {}?", i),
                    answer = fmt::format("It is {}.", i * i);
  if (type == "alpaca")
    return {{"instruction", question}, {"input", i % 2 ? "" : "as a whole number"}, {"output", answer}};
  if (type == "pretrain" || type == "completion") return {{dataset.value("field", "text"), question + " " + answer}};
  if (type == "chat_template.default")
    return {{dataset["field_messages"], Json::array({{{"role", "user"}, {"content", question}}})},
            {dataset["field_chosen"], {{"role", "assistant"}, {"content", answer}}},
            {dataset["field_rejected"], {{"role", "assistant"}, {"content", "No idea."}}}};
  if (type == "chat_template") {
    const Json names = dataset.value("message_property_mappings", Json::object());
    const std::string role = names.value("role", "role"), content = names.value("content", "content");
    const bool sharegpt = role == "from";
    Json messages = Json::array();
    messages.push_back({{role, sharegpt ? "human" : "user"}, {content, question}});
    messages.push_back({{role, sharegpt ? "gpt" : "assistant"}, {content, answer}});
    return {{dataset.value("field_messages", "messages"), messages}};
  }
  return nullptr;
}

class AxolotlRecipes : public Workshop {
 protected:
  AxolotlRecipes() { around_.folder = folder_; }

  // As `huggingface-cli download --local-dir NAME` would leave it.
  void fetch_model(const std::string& name) const {
    auto family = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                               [&](auto& f) { return name.find(f.in_name) != std::string::npos; });
    ASSERT_NE(family, std::end(kFamilies)) << name;
    fs::create_directories(fs::path(at(name)).parent_path());
    fs::create_directory_symlink(fs::canonical(shared(std::string("data/tokenizers/") + family->tokenizer)), at(name));
  }
  void fetch_dataset(const Json& dataset) const {
    std::string folder = dataset["path"], rows;
    if (dataset.contains("name")) folder += "/" + dataset["name"].get<std::string>();
    fs::create_directories(at(folder));
    for (int i = 0; i < kRows; ++i) {
      const Json row = row_of(dataset, i);
      ASSERT_FALSE(row.is_null()) << "how does a row of this type look? " << dump(dataset);
      rows += dump(row) + "\n";
    }
    write(folder + "/train.jsonl", rows);
  }
  // What the run says of a dataset that was read as the recipe wants it.
  static std::string kept(const Json& dataset) {
    const std::string split = dataset.value("split", "");
    return split.ends_with("[:20%]") ? "8 rows → 8 examples" : "40 rows → 40 examples";
  }
  static Json datasets_of(const Json& recipe) {
    Json all = recipe.value("datasets", Json::array());
    for (auto& dataset : recipe.value("pretraining_dataset", Json::array())) all.push_back(dataset);
    return all;
  }

  Surroundings around_;
};

TEST_F(AxolotlRecipes, ArePreparedAsTheyAre) {
  const std::string folder = shared("data/axolotl-recipes");
  if (!fs::exists(folder) || !fs::exists(shared("data/tokenizers/llama2"))) GTEST_SKIP() << "no recipes in " << folder;
  int prepared = 0;
  for (auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const std::string name = entry.path().filename().string(), path = fs::canonical(entry.path()).string();
    SCOPED_TRACE(name);
    ++prepared;
    const Json recipe = read_json(folder + "/parsed/" + name + ".json");  // as another YAML reader has it
    const std::string base = recipe["base_model"];
    const Json datasets = datasets_of(recipe);
    if (!fs::exists(at(base))) fetch_model(base);
    for (auto& dataset : datasets) fetch_dataset(dataset);
    for (bool own_family : {true, false}) {
      Words words{"preprocess", path, "--rebuild"};
      if (!own_family) {
        words.insert(words.end(), {"--base_model", shared("data/models/stories260K")});
        Words check = words;
        check[0] = "validate";
        std::erase(check, "--rebuild");
        const Ended valid = dml(check, around_);
        EXPECT_EQ(valid.exit, 0) << valid.err;
        check.insert(check.end(), {"--DATASETS.0.path", at("none.jsonl")});
        const std::string list = recipe.contains("datasets") ? "datasets" : "pretraining_dataset";
        check[check.size() - 2] = "--" + list + ".0.path";
        for (const char* command : {"validate", "preprocess"}) {
          check[0] = command;
          EXPECT_EQ(dml(check, around_).exit, 2) << command;
        }
      }
      const Ended e = dml(words, around_);
      EXPECT_EQ(e.exit, 0) << e.err;
      EXPECT_THAT(e.err, HasSubstr(kept(datasets[0])));
      // The end token of another family's chat template is no token of the small model, which is said.
      const bool foreign = !own_family && recipe.contains("chat_template");
      EXPECT_THAT(e.err, HasSubstr(foreign ? "the model may not learn to stop" : "EOS is trained in all "));
      if (recipe.value("dataset_exact_deduplication", false)) {  // the same dataset is named twice
        EXPECT_THAT(e.err, HasSubstr("dropped 40: duplicate"));
      } else {
        EXPECT_THAT(e.err, Not(HasSubstr("dropped")));
      }
    }
  }
  EXPECT_GE(prepared, 12);
}

// Two steps of each, with a small model in place of the one it names; a few of them where the test must be short.
TEST_F(AxolotlRecipes, TrainInSmokeForm) {
  const std::string folder = shared("data/axolotl-recipes"), base = shared("data/models/stories260K");
  if (!fs::exists(folder) || !fs::exists(base)) GTEST_SKIP() << "no recipes in " << folder;
  const bool all = std::getenv("DML_LONG") != nullptr;
  int trained = 0;
  for (auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool chosen = all || name == "qwen2__dpo.yaml" || name.starts_with("llama-2__qlora") ||
                        name.starts_with("archived__tiny-llama__pretrain");
    if (!entry.is_regular_file() || !chosen) continue;
    SCOPED_TRACE(name);
    for (auto& dataset : datasets_of(read_json(folder + "/parsed/" + name + ".json"))) fetch_dataset(dataset);
    const Ended e = dml({"train", fs::canonical(entry.path()).string(), "--base_model", base, "--max_steps", "2",
                         "--sequence_len", "256", "--micro_batch_size", "1", "--gradient_accumulation_steps", "1",
                         "--output_dir", at("out"), "--threads", "1"},
                        around_);
    EXPECT_EQ(e.exit, 0) << e.err;
    EXPECT_THAT(read_file(at("out/metrics.jsonl")), HasSubstr("{\"step\":2,"));
    ++trained;
  }
  EXPECT_GE(trained, 2);
}

}  // namespace
}  // namespace dml::e2e
