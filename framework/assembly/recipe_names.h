// Supplies recipe keys with the choices of the registries: names of optimizers and schedules, and the settings they
// read.
#pragma once

namespace dml {

/// Call before the first recipe is read, and again after a row was added to a registry.
void name_choices();

/// Makes recipes load the plug-ins that they list.
void enable_recipe_plugins();

}  // namespace dml
