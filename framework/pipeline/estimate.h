// How long a training pass takes on this machine, from a short forward pass.
#pragma once

#include "core/packed_batch.h"
#include "model/causal_lm.h"

namespace dml {

/// Seconds for forward and backward of `batch`: its operations at the rate that a forward pass over its first tokens has
/// here. The model's working memory must be reserved.
double estimate_pass(CausalLm& model, const PackedBatch& batch);

}  // namespace dml
