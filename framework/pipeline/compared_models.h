// The models that dml evaluate compares: the base, and what was trained on it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "assembly/base_model.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"

namespace dml {

struct ComparedModel {
  std::string name;  // "base", an adapter's directory …
  ModelSection section;
  std::vector<std::string> adapters;
  std::string vocabulary_of = {};  // an adapter whose tokens it gets
};

/// The base, if it can give the run's values and is still there, and the trained model, or each of `adapters`, which
/// replace the adapter in the output directory. `base_model`: this model instead, alone and with each of the adapters.
/// UserError when nothing has been trained yet.
std::vector<ComparedModel> compared_models(const Recipe& recipe, const std::vector<std::string>& adapters,
                                           const std::optional<std::string>& base_model);

/// Opens a model with rows for all tokens of the tokenizer. Rows that its files lack begin as in training.
BaseModel open_compared(const ComparedModel& model, const Recipe& recipe, const Tokenizer& tokenizer);

/// Whether the base that the run trains from is there: not random values, and not removed.
bool base_is_there(const ModelSection& model);

}  // namespace dml
