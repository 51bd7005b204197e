// Makes a recipe's objective and the loader options that it needs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "data/examples.h"
#include "data/loader.h"
#include "data/schedule.h"
#include "recipe/recipe.h"
#include "train/objective/document_objective.h"

namespace dml {

/// mismatched: for rl: kto, the largest micro-batch of prompts with other prompts' answers.
std::unique_ptr<Objective> make_objective(const Recipe& recipe, CausalLm::Shape mismatched,
                                          DocumentReference reference = {});
/// Whether the recipe's loss is the mean cross-entropy of tokens, which has a perplexity; also with
/// `label_smoothing_factor` and other terms, which evaluations leave out.
bool has_token_loss(const Recipe& recipe);
/// The source of the reference: with sync_ref_model, moving weights; with precompute_ref_log_probs: false, the base, if
/// a pass without the adapter computes the model that the run starts from.
ReferenceSource reference_source(const Recipe& recipe, const CausalLm& model);
/// `references` must outlive the loader. `validation`: options for the validation split.
LoaderOptions loader_options(const Recipe& recipe, const ReferenceScores& references, bool validation);
/// The plan of one evaluation of the objective on the validation split; unset if it is empty.
std::optional<Schedule> evaluation_schedule(const Recipe& recipe, const Examples& validation, std::int64_t ranks);

}  // namespace dml
