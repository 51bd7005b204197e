// What a resumed run may change. A checkpoint records its recipe without most of the settings that change no result;
// the recipe of the run that resumes from it is compared key by key.
#pragma once

#include <string>
#include <string_view>

#include "recipe/recipe.h"

namespace dml {

/// The recipe that checkpoints of a job of `ranks` ranks record, as YAML: settings that change no result have their
/// defaults, and those that depend on the machine or the ranks are resolved.
std::string recorded_recipe(RecipeFile file, int ranks);

enum class OnResume {
  fixed,   // another value is another run
  free,    // changes neither the numbers nor their order
  extends  // changes the number of steps, which may change the learning rate of those already trained
};
/// What a difference in a key of the recorded recipes means.
OnResume on_resume(std::string_view key);

}  // namespace dml
