// The recipes of recipes/gallery: accepted without a warning, each named by the page that lists them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/files.h"
#include "sample.h"

namespace dml {
namespace {

TEST(GalleryRecipes, AreAcceptedWithoutAWarningAndListed) {
  const std::string folder = DML_SOURCE_DIR "/recipes/gallery", page = read_file(folder + "/README.md");
  int recipes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::filesystem::path& path = entry.path();
    if (path.extension() != ".yml") continue;
    ++recipes;
    EXPECT_THAT(page, testing::HasSubstr("](" + path.filename().string() + ")"));
    try {
      const RecipeFile file = load_recipe(path.string());
      EXPECT_THAT(file.warnings, testing::IsEmpty()) << path;
      EXPECT_THAT(file.recipe.train.output_dir, testing::StartsWith("outputs/")) << path;
    } catch (const UserError& e) {
      ADD_FAILURE() << e.what();
    }
  }
  EXPECT_GE(recipes, 10);
}

}  // namespace
}  // namespace dml
