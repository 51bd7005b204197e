// What a resumed run may change. A checkpoint records its recipe without most of the settings that change no result;
// the recipe of the run that resumes from it is compared key by key.
#pragma once

#include <cstdint>
#include <optional>
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
/// What a difference in a key of the recorded recipes means for the run of `recipe`. Where saved activations are
/// rounded to bf16, recomputed ones are not, so gradient checkpointing changes the numbers.
OnResume on_resume(std::string_view key, const Recipe& recipe);

/// A step whose learning rate depends on the number of steps of the run.
struct RateChange {
  std::int64_t step;     // from 0
  double before, after;  // its rates
  std::string cause;     // the setting, as "lr_scheduler: cosine"
  std::string instead;   // those with which the rates would be the same
};
/// The first of the `trained` steps whose rate differs between runs of `before` and `after` steps.
std::optional<RateChange> first_rate_change(const OptimSection& optim, std::int64_t before, std::int64_t after,
                                            std::int64_t trained);

}  // namespace dml
