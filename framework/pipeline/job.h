// What several stages open in the same way: the tokenizer, the prepared data (rank 0 prepares, the others wait).
#pragma once

#include <memory>
#include <string>

#include "data/prepare.h"
#include "dist/comm.h"
#include "model/causal_lm.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"

namespace dml {

/// Directory of the tokenizer: tokenizer_config, else base_model, else what a model from scratch was saved to.
std::string tokenizer_directory(const ModelSection& model);
TokenizerOverrides tokenizer_overrides(const ModelSection& model);
std::unique_ptr<Tokenizer> open_tokenizer(const ModelSection& model);

Prepared prepare_on_ranks(const Recipe& recipe, const Tokenizer& tokenizer, Comm& comm, bool rebuild = false);

/// Precision of products, and threads of this rank: as the recipe says, else the cores it may use, shared with the ranks that
/// may use them too. Warns when a rank is bound to fewer cores than its threads, or most of a host lies idle. A collective.
void set_up_processor(const TrainSection& train, Comm& comm);

/// What the model keeps between forward and backward, and how.
void set_keeping(CausalLm& model, const Recipe& recipe);

}  // namespace dml
