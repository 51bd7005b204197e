// Resizes the vocabulary for a recipe's new tokens: embedding and head get more rows, as with resize_token_embeddings
// of Hugging Face. New rows are N(0, initializer_range), or the mean of the old ones (mean_resizing_embeddings); a bias
// gets zeros. Rows are never removed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assembly/base_model.h"
#include "model/weight_names.h"
#include "tokenizer/tokenizer.h"

namespace dml {

/// The rows that embedding and head have after new ones were appended, and how those start.
struct NewRows {
  std::int64_t rows = 0;  // none is appended to a vocabulary that has as many
  bool mean = false;      // the mean of the others instead of random values
  std::uint64_t seed = 0;
};

/// The rows of a model for all tokens of its tokenizer (with resize_token_embeddings_to_32x, a multiple of 32).
NewRows rows_for(std::int64_t tokens, const ModelSection& model, std::int64_t seed);

/// Appends the new rows to the values of a tensor of a model with `spec`, where it is the embedding, the head or its
/// bias.
void append_rows(std::vector<float>& values, const WeightName& weight, const ModelSpec& spec, const NewRows& more);

/// The number of tokens that need a row of the embedding in training: all, except, with an adapter, a new pad token at
/// the end of the vocabulary, since no batch contains one.
std::int64_t tokens_with_rows(const Tokenizer& tokenizer, const AdapterSection& adapter);

/// `spec` with rows for `tokens` tokens, if it has fewer.
ModelSpec spec_with_rows(ModelSpec spec, std::int64_t tokens);

/// UserError when a new adapter would leave the rows of new tokens untrained.
void check_resize(const BaseModel& base, std::int64_t tokens, const AdapterSection& adapter);

/// Gives the base the rows that `tokens` tokens need (with resize_token_embeddings_to_32x, a multiple of 32), or those
/// of the adapter that training starts from. UserError when an adapter trains no row of a new token; a warning when it
/// trains them in only one of embedding and head.
void resize_vocabulary(BaseModel& base, std::int64_t tokens, const ModelSection& model, const AdapterSection& adapter,
                       std::int64_t seed);

/// Gives a model that is measured the rows that `tokens` tokens need, if it has fewer, as they are at the start of
/// training.
void append_missing_rows(BaseModel& base, std::int64_t tokens, const ModelSection& model, std::int64_t seed);

/// Resizes embedding and head to the rows in the adapters' files. Values of the base stored in such a file (PEFT saves
/// them with a resized vocabulary) replace the base's own.
void fit_vocabulary(BaseModel& base, const std::vector<std::string>& adapters);

/// Resizes the base for a recipe's adapter without its tokenizer: for the rows of lora_model_dir and of the tokens in
/// peft_trainable_token_indices.
void fit_vocabulary(BaseModel& base, const AdapterSection& adapter);

}  // namespace dml
