// dml diff: the settings in which two recipes differ, including defaults and derived settings.
#include "cli/options.h"
#include "cli/output.h"
#include "cli/stages.h"
#include "pipeline/recipe_changes.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

struct DiffWords {
  std::string before, after;
  Options options{
      "diff",
      "diff RECIPE OTHER",
      {"dml diff lora.yml full.yml", "dml diff outputs/a/recipe.resolved.yml next.yml     a run and what comes next"}};
  DiffWords() {
    options.about(
        "Prints the settings in which two recipes differ, a line each: KEY: VALUE -> OTHER VALUE; of tables and lists, "
        "the entries that differ. Both are resolved "
        "first, so order, comments and default values do not count. Exit code 0, even if nothing "
        "differs.");
    options.positional("RECIPE", before, "a recipe, or the resolved one that a run has written");
    options.positional("OTHER", after, "the recipe to compare it with");
  }
};

int run_diff(const std::vector<std::string>& words) {
  DiffWords d;
  d.options.parse(words);
  const auto resolved = [](const std::string& path) { return resolved_json(load_recipe(path)); };
  const auto shown = [](const std::string& value) { return value.empty() ? "(unset)" : value; };
  for (const RecipeChange& c : setting_changes(resolved(d.before), resolved(d.after)))
    print(fmt::format("{}: {} -> {}\n", c.key, shown(c.before), shown(c.after)));
  return 0;
}

}  // namespace

Command diff_command() {
  return {"diff", "the settings in which two recipes differ", [] { return DiffWords().options.page(); }, run_diff};
}

}  // namespace dml
