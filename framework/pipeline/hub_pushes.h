// Pushes results to the Hub during a run and at its end (hub_model_id, hub_strategy). A failed push is a warning that
// names the command to repeat it; it never ends a run.
#pragma once

#include <memory>

#include "recipe/recipe.h"
#include "train/observer.h"

namespace dml {

/// For rank 0: pushes checkpoints on a background thread according to hub_strategy, one at a time; of several waiting
/// checkpoints only the newest is pushed. on_end() waits for the last push.
std::unique_ptr<Observer> make_hub_pushes(const Recipe& recipe);

/// Pushes the result in output_dir at the end of a run.
void push_result(const Recipe& recipe);

/// UserError when hub_model_id is set and there is no token. Called before training.
void require_hub_token(const Recipe& recipe);

}  // namespace dml
