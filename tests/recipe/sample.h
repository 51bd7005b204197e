// A small valid recipe, and what is wrong with a recipe's text.
#pragma once

#include <string>
#include <vector>

#include "assembly/recipe_names.h"
#include "core/error.h"
#include "recipe/recipe.h"

namespace dml {

inline const bool kNamed = (name_choices(), true);  // as the program does

/// Five lines; a test's own lines follow from line 6 on.
inline const std::string kSample =
    "base_model: models/tiny\n"
    "datasets:\n"
    "  - path: rows.jsonl\n"
    "    type: alpaca\n"
    "learning_rate: 2e-4\n";

inline Recipe parsed(const std::string& lines, const std::vector<std::string>& arguments = {}) {
  return read_recipe(kSample + lines, "r.yml", parse_overrides(arguments)).recipe;
}

/// The lines of the error, or "" when there is none.
inline std::string problems_of(const std::string& text, const std::vector<std::string>& arguments = {}) {
  try {
    read_recipe(text, "r.yml", parse_overrides(arguments));
    return "";
  } catch (const UserError& e) {
    return e.what();
  }
}
inline std::string problems(const std::string& lines, const std::vector<std::string>& arguments = {}) {
  return problems_of(kSample + lines, arguments);
}

}  // namespace dml
