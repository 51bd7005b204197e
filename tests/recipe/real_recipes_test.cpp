// Real recipes, Axolotl's and our own: accepted with the values another YAML reader finds, or refused naming place and
// key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/files.h"
#include "recipe/fields.h"
#include "sample.h"

namespace dml {
namespace {

/// Compares what the recipe holds with what the file says, key by key: true when equal as numbers, texts or lists.
bool agrees(const Json& ours, const Json& theirs) {
  if (theirs.is_null()) return true;
  if (ours.is_number() && theirs.is_number()) return ours.get<double>() == theirs.get<double>();
  if (ours.is_number() && theirs.is_string())
    return ours.get<double>() == std::stod(theirs.get<std::string>());  // 2e-5
  if (theirs.is_array() && ours.is_array()) {
    if (ours.size() != theirs.size()) return false;
    for (std::size_t i = 0; i < ours.size(); ++i)
      if (!agrees(ours[i], theirs[i])) return false;
    return true;
  }
  if (theirs.is_object() && ours.is_object()) {
    for (const auto& [key, value] : theirs.items())
      if (!ours.contains(key) || !agrees(ours[key], value)) return false;
    return true;
  }
  return ours == theirs;
}

TEST(RealRecipes, AreAcceptedWithTheirValuesOrRefusedByPlace) {
  const std::string folder = DML_SOURCE_DIR "/../shared/data/axolotl-recipes";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no recipes in " << folder;
  int accepted = 0, all = 0, compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.path().extension().string().starts_with(".y")) continue;
    ++all;
    RecipeFile file;
    try {
      file = load_recipe(entry.path().string());
    } catch (const UserError& e) {
      EXPECT_THAT(e.what(), testing::ContainsRegex(":[0-9]+:[0-9]+: .*not supported"));
      EXPECT_THAT(e.what(), testing::Not(testing::HasSubstr("unknown")));
      continue;
    }
    ++accepted;
    Json theirs = read_json(folder + "/parsed/" + entry.path().filename().string() + ".json");
    for (const auto& [key, value] : theirs.items()) {
      auto found = recipe::find_field(key);
      if (!found.field || key == "optimizer" || (key == "gradient_checkpointing" && value == "offload")) continue;
      if (key == "plugins") continue;  // Axolotl's own without effect on CPUs are left out
      ++compared;
      Json ours = found.field->write(found.section->of(file.recipe));
      EXPECT_TRUE(agrees(ours, value)) << entry.path().filename() << " " << key << ": " << dump(ours) << " is not "
                                       << dump(value);
    }
    EXPECT_TRUE(file.recipe.optim.optimizer == "adamw" || file.recipe.optim.optimizer == "adamw_8bit")
        << file.recipe.optim.optimizer;
    auto again = read_recipe(resolved_yaml(file), "resolved.yml");
    EXPECT_TRUE(again.recipe == file.recipe);
  }
  EXPECT_GE(accepted, all - 1);
  EXPECT_GE(compared, 20 * accepted);
}

TEST(OurRecipes, AreAllValidAndReadBack) {
  int all = 0;
  for (const char* folder : {"/recipes", "/examples"}) {
    const std::string root = std::string(DML_SOURCE_DIR) + folder;
    if (!std::filesystem::exists(root)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (!entry.path().extension().string().starts_with(".y")) continue;
      if (entry.path().string().find("/plugin-") != std::string::npos)
        continue;  // its plug-in is built by install_test.cmake
      if (entry.path().string().find("/recipes/evals/") != std::string::npos) continue;  // tasks, no recipes
      ++all;
      RecipeFile file;
      ASSERT_NO_THROW(file = load_recipe(entry.path().string())) << entry.path();
      EXPECT_TRUE(read_recipe(resolved_yaml(file), "resolved.yml").recipe == file.recipe) << entry.path();
    }
  }
  EXPECT_GT(all, 0);
}

}  // namespace
}  // namespace dml
