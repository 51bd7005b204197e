// The stages between the YAML tree of a recipe and a checked Recipe, in order.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "recipe/fields.h"

namespace dml::recipe {

/// Replaces settings of the tree by those of the command line.
void apply_overrides(Node& root, const std::vector<Override>& overrides, Report& report);
/// Rewrites Axolotl's old keys that an alias cannot express (deepspeed, fsdp, message_field_role …).
void map_old_keys(Node& root, Report& report);
/// Loads the plug-ins that the recipe lists, before checks, since the recipe may name their rows. Adds a notice for
/// each. Throws on an error, since otherwise every name of a missing plug-in would be reported as an error.
void load_plugins(const Node& root, Report& report);
/// Sets values that follow from other settings. Returns their origins, key → "from KEY".
std::map<std::string, std::string> fill_in(Recipe& recipe, const Reading& reading);
/// Checks the rules between settings; errors name both places.
void check_rules(const Recipe& recipe, RecipeUse use, Reading& reading);
/// Files and directories that the recipe names and that do not exist, by place.
std::vector<Problem> missing_files(const Recipe& recipe, const Reading& reading);

}  // namespace dml::recipe
