// The parts of the models that a recipe names.
#pragma once

#include "hub/snapshot_parts.h"
#include "recipe/section_model.h"

namespace dml {

/// The parts of `base_model` that are read: other keys may name another place for its config and its tokenizer, or
/// replace its weights.
inline SnapshotParts parts_of_base(const ModelSection& model) {
  return {.config = !model.base_model_config, .weights = !model.reinit_weights, .tokenizer = !model.tokenizer_config};
}
/// Of `base_model_config` and `tokenizer_config`.
inline constexpr SnapshotParts kConfigOnly{true, false, false}, kTokenizerOnly{false, false, true};

}  // namespace dml
