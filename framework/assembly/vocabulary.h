// A vocabulary that grows: the recipe's new tokens give embedding and head more rows, as resize_token_embeddings of
// Hugging Face does. New rows are N(0, initializer_range), or the mean of the old ones (mean_resizing_embeddings); a
// bias gets zeros. Rows are added, never taken away.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assembly/base_model.h"
#include "tokenizer/tokenizer.h"

namespace dml {

/// Tokens that need a row of the embedding: all of them, but with an adapter not a new pad token at the end of the
/// vocabulary, which no batch ever holds.
std::int64_t tokens_with_rows(const Tokenizer& tokenizer, const AdapterSection& adapter);

/// UserError where a new adapter would leave rows of new tokens untrained.
void check_growth(const BaseModel& base, std::int64_t tokens, const AdapterSection& adapter);

/// The base gets the rows that `tokens` tokens need (with resize_token_embeddings_to_32x a multiple of 32), or those of
/// the adapter that training starts from. UserError where an adapter would train no row of a new token; a warning where
/// it trains them at one end only.
void grow_vocabulary(BaseModel& base, std::int64_t tokens, const ModelSection& model, const AdapterSection& adapter,
                     std::int64_t seed);

/// As many rows as the adapters' files have for embedding or head; the base's own values that such a file holds
/// (PEFT saves them with a resized vocabulary) take the place of the base's.
void fit_vocabulary(BaseModel& base, const std::vector<std::string>& adapters);

/// As many rows as the adapter of a recipe needs, without its tokenizer: those of lora_model_dir, and of the tokens
/// that peft_trainable_token_indices names.
void fit_vocabulary(BaseModel& base, const AdapterSection& adapter);

}  // namespace dml
