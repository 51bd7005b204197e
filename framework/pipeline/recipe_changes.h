// Differences between two resolved recipes (recipe/recipe.h: resolved_yaml, resolved_json), key by key.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/json.h"

namespace dml {

/// Top-level keys with their values; nested tables are part of the value.
std::vector<std::pair<std::string, std::string>> recipe_items(const std::string& resolved);

struct RecipeChange {
  std::string key, before, after;  // "" when unset
};
std::vector<RecipeChange> recipe_changes(const std::string& before, const std::string& after);
/// The differences of two recipes (resolved_json) with the path of each, "datasets.1.type" or "lora_r". Lists of tables
/// are compared entry by entry, and so are long lists of values, unless entries were inserted or removed before the
/// end.
std::vector<RecipeChange> setting_changes(const Json& before, const Json& after);
/// "num_epochs 2 → 3, lora_r 8 → 16"; long values and tables are not shown.
std::string changes_text(const std::vector<RecipeChange>& changes);

}  // namespace dml
