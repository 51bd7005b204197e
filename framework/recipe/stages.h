// The stages between the tree of a recipe's text and a checked Recipe, in their order.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "recipe/fields.h"

namespace dml::recipe {

/// Overrides settings of the tree by those of the command line.
void apply_overrides(Node& root, const std::vector<Override>& overrides, Report& report);
/// Rewrites Axolotl's older or other spellings that no alias can express (deepspeed, fsdp, message_field_role …).
void map_old_keys(Node& root, Report& report);
/// Loads the plug-ins that the recipe lists, before anything is checked: what they add can be named in it. Says what
/// was loaded; an error ends the reading, since names of a plug-in that is missing would be errors, too.
void load_plugins(const Node& root, Report& report);
/// Fills values that follow from others. Returns key → "from KEY".
std::map<std::string, std::string> fill_in(Recipe& recipe, const Reading& reading);
/// Rules between settings; errors name both places.
void check_rules(const Recipe& recipe, RecipeUse use, Reading& reading);
/// Files and directories that are named and do not exist, by place.
std::vector<Problem> missing_files(const Recipe& recipe, const Reading& reading);

}  // namespace dml::recipe
