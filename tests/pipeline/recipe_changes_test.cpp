#include "pipeline/recipe_changes.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

namespace dml {
namespace {

// "PATH: BEFORE -> AFTER" of each change, a line each.
std::string changed(const char* before, const char* after) {
  std::string out;
  for (const RecipeChange& c : setting_changes(parse_json(before, "before"), parse_json(after, "after")))
    out += fmt::format("{}: {} -> {}\n", c.key, c.before, c.after);
  return out;
}

TEST(SettingChanges, NameTheMembersOfTables) {
  EXPECT_EQ(changed(R"({"lora_r": 8, "trl": {"beta": 0.1, "epsilon": 0.2}})",
                    R"({"lora_r": 16, "trl": {"beta": 0.2, "epsilon": 0.2}})"),
            "lora_r: 8 -> 16\ntrl.beta: 0.1 -> 0.2\n");
  EXPECT_EQ(changed(R"({"seed": null, "model_config": {"a": 1}})", R"({"seed": 1, "model_config": {"b": 2}})"),
            "seed:  -> 1\nmodel_config.b:  -> 2\nmodel_config.a: 1 -> \n");
}

TEST(SettingChanges, CompareListsOfTablesEntryByEntry) {
  EXPECT_EQ(changed(R"({"datasets": [{"path": "a", "type": "x"}, {"path": "b", "type": "x"}]})",
                    R"({"datasets": [{"path": "a", "type": "x"}, {"path": "b", "type": "y"}]})"),
            "datasets.1.type: x -> y\n");
  EXPECT_EQ(changed(R"({"datasets": [{"path": "a"}]})",
                    R"({"datasets": [{"path": "a"}, {"path": "b", "split": null, "files": []}]})"),
            "datasets.1:  -> {\"path\":\"b\"}\n");
  EXPECT_EQ(changed(R"({"evals": []})", R"({"evals": [{"name": "a"}]})"), "evals.0:  -> {\"name\":\"a\"}\n");
}

TEST(SettingChanges, ShowShortListsWholeAndEntriesOfLongOnes) {
  EXPECT_EQ(changed(R"({"targets": ["q", "k"]})", R"({"targets": ["q", "v"]})"),
            "targets: [\"q\",\"k\"] -> [\"q\",\"v\"]\n");
  const std::string many = R"("a_long_name_of_a_module", "another_long_name_of_a_module", )";
  const auto list = [&](const char* end) { return fmt::format(R"({{"targets": [{}"q", {}]}})", many, end); };
  EXPECT_EQ(changed(list("\"k\"").c_str(), list("\"v\"").c_str()), "targets.3: k -> v\n");
  EXPECT_EQ(changed(list("\"k\"").c_str(), list("\"k\", \"v\"").c_str()), "targets.4:  -> v\n");
  const std::string inserted = changed(list("\"k\"").c_str(), list("\"v\", \"k\"").c_str());
  EXPECT_TRUE(inserted.starts_with("targets: [")) << inserted;
}

TEST(SettingChanges, ShowAnEntryWithoutDefaultsAndTextsInALine) {
  EXPECT_EQ(changed(R"({"datasets": []})",
                    R"({"datasets": [{"path": "a", "split": "train", "weight": 1, "train_on_eos": "all"}]})"),
            "datasets.0:  -> {\"path\":\"a\",\"train_on_eos\":\"all\"}\n");
  EXPECT_EQ(changed(R"({"chat_template_jinja": "a\nb"})", R"({"chat_template_jinja": "a"})"),
            "chat_template_jinja: \"a\\nb\" -> a\n");
}

TEST(SettingChanges, AreNoneOfEqualRecipes) {
  EXPECT_EQ(changed(R"({"a": [1, {"b": 2}]})", R"({"a": [1, {"b": 2}]})"), "");
}

}  // namespace
}  // namespace dml
