// Steps that several commands share: opening the tokenizer, preparing the data (rank 0 prepares, the others wait),
// configuring threads.
#pragma once

#include <memory>
#include <string>

#include "core/placement.h"
#include "data/prepare.h"
#include "dist/comm.h"
#include "model/causal_lm.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"

namespace dml {

/// The tokenizer's directory: tokenizer_config, else base_model. UserError when neither is set.
std::string tokenizer_directory(const ModelSection& model);
TokenizerOverrides tokenizer_overrides(const ModelSection& model);
std::unique_ptr<Tokenizer> open_tokenizer(const ModelSection& model);

Prepared prepare_on_ranks(const Recipe& recipe, const Tokenizer& tokenizer, Comm& comm, bool rebuild = false);

/// Sets the precision of matrix products. Warns when bf16 is asked for and this processor has no instructions for it.
void set_precision(Bf16 wanted);
/// For generating text: automatic rounds the factors of large products and of those of few rows where each is faster.
void set_generation_precision(Bf16 wanted);
/// What answers are rounded by, as the end of a description; empty for float32.
const char* generation_precision_text();

/// The threads of a rank.
struct RankThreads {
  int count = 1;
  Placement placement;
};
/// The recipe's number of threads, else `chosen`, else (0) this rank's share of the available cores; and where they
/// run. Ranks of a host that may run on the same cores divide them. A collective.
RankThreads threads_of_rank(const TrainSection& train, Comm& comm, std::int64_t chosen = 0);

/// Sets the precision of matrix products and the threads of this rank, by threads_of_rank(). Warns when a rank is bound
/// to fewer cores than its threads, or when most cores of a host are idle. A collective.
void set_up_processor(const TrainSection& train, Comm& comm, std::int64_t chosen = 0);

/// Sets which activations the model saves for backward, and in which dtype.
void set_recompute_policy(CausalLm& model, const Recipe& recipe);
/// The dtypes of the activations that are saved, with the precision of products that set_up_processor() has set.
SavePolicy save_policy(const Recipe& recipe);

}  // namespace dml
