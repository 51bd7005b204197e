// Choices of recipes that come from the registries: the names of optimizers and schedules, and which settings they
// read.
#pragma once

namespace dml {

/// Before the first recipe is read, and again where a program has added a row to a registry.
void name_choices();

/// Recipes load the plug-ins that they list.
void enable_recipe_plugins();

}  // namespace dml
