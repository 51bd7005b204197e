// Results pushed to the Hub during a run and at its end (hub_model_id, hub_strategy). A push that fails is a warning
// with the command that repeats it: it never ends a run.
#pragma once

#include <memory>

#include "recipe/recipe.h"
#include "train/observer.h"

namespace dml {

/// For rank 0: pushes checkpoints on a background thread, by hub_strategy. One at a time: of the checkpoints that wait,
/// only the newest is pushed. on_end() waits for the last push.
std::unique_ptr<Observer> make_hub_pushes(const Recipe& recipe);

/// The result in output_dir, at the end of a run.
void push_result(const Recipe& recipe);

/// UserError where hub_model_id is set and there is no token. Called before training.
void require_hub_token(const Recipe& recipe);

}  // namespace dml
