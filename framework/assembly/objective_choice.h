// Makes the objective of a recipe, and says how its micro-batches are loaded.
#pragma once

#include <memory>

#include "data/loader.h"
#include "recipe/recipe.h"
#include "train/objective/document_objective.h"

namespace dml {

/// mismatched: the largest micro-batch of prompts with other prompts' answers, of rl: kto.
std::unique_ptr<Objective> make_objective(const Recipe& recipe, CausalLm::Shape mismatched,
                                          DocumentReference reference = {});
/// Where the run's reference comes from: with sync_ref_model weights that move; with precompute_ref_log_probs: false
/// the base, where a pass without the adapter is the model that the run starts from.
ReferenceSource reference_source(const Recipe& recipe, const CausalLm& model);
/// `references` must outlive the loader; `validation`: the loader is of the validation split.
LoaderOptions loader_options(const Recipe& recipe, const ReferenceScores& references, bool validation);

}  // namespace dml
