// Differences between two resolved recipes (recipe/recipe.h: resolved_yaml), key by key.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace dml {

/// Top-level keys with their values; nested tables are part of the value.
std::vector<std::pair<std::string, std::string>> recipe_items(const std::string& resolved);

struct RecipeChange {
  std::string key, before, after;  // "" when unset
};
std::vector<RecipeChange> recipe_changes(const std::string& before, const std::string& after);
/// "num_epochs 2 → 3, lora_r 8 → 16"; long values are not shown.
std::string changes_text(const std::vector<RecipeChange>& changes);

}  // namespace dml
