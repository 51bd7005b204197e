// Results pushed to the Hub during a run and at its end (hub_model_id, hub_strategy). A push that fails is a warning
// with the command that repeats it: it never ends a run.
#pragma once

#include <memory>

#include "recipe/recipe.h"
#include "train/observer.h"

namespace dml {

/// Of rank 0: pushes checkpoints on a thread of its own, as the strategy says. One at a time: a checkpoint that becomes
/// complete while an earlier one is pushed waits, and gives way to a later one. Its on_end() waits for the last.
std::unique_ptr<Observer> make_hub_pushes(const Recipe& recipe);

/// The result in output_dir, at the end of a run.
void push_result(const Recipe& recipe);

/// UserError when hub_model_id is set and there is no token: known before hours of training rather than after them.
void require_hub_token(const Recipe& recipe);

}  // namespace dml
