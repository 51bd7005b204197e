// A vocabulary that grows: the recipe's new tokens give embedding and head more rows, as resize_token_embeddings of
// Hugging Face does. New rows are N(0, initializer_range), or the mean of the old ones (mean_resizing_embeddings); a
// bias gets zeros. Rows are added, never taken away.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/base_model.h"

namespace dml {

/// The base gets the rows that `tokens` tokens need (with resize_token_embeddings_to_32x a multiple of 32). UserError
/// where an adapter would leave new rows untrained.
void grow_vocabulary(BaseModel& base, std::int64_t tokens, const ModelSection& model, const AdapterSection& adapter,
                     std::int64_t seed);

/// As many rows as the adapters' own embedding or head: theirs take the place of the base's.
void fit_vocabulary(BaseModel& base, const std::vector<std::string>& adapters);

}  // namespace dml
