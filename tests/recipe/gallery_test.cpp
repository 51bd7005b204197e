// The recipes of recipes/gallery: accepted without a warning, each named by the page that lists them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <sstream>

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

// The rows of the page's table are taken at their word.
TEST(GalleryRecipes, AreAcceptedInEveryWayThatThePageNames) {
  const std::string folder = DML_SOURCE_DIR "/recipes/gallery", page = read_file(folder + "/README.md");
  std::vector<std::vector<Override>> ways;
  for (std::size_t at = 0; (at = page.find("`--adapter ", at)) != page.npos;) {
    const std::size_t end = page.find('`', ++at);
    std::istringstream words(page.substr(at, end - at));
    ways.push_back(parse_overrides({std::istream_iterator<std::string>(words), {}}));
  }
  ASSERT_EQ(ways.size(), 3u);
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    for (const std::vector<Override>& way : ways) {
      if (entry.path().extension() != ".yml") continue;
      const bool whole = way[0].value == "none";
      if (!whole && entry.path().stem() == "tinystories-from-scratch") continue;  // an adapter needs a base
      try {
        const Recipe recipe = load_recipe(entry.path().string(), way).recipe;
        EXPECT_EQ(recipe.adapter.adapter == AdapterKind::none, whole) << entry.path();
      } catch (const UserError& e) {
        ADD_FAILURE() << entry.path() << " as " << way[0].value << ": " << e.what();
      }
    }
}

}  // namespace
}  // namespace dml
