// dml evaluate: the loss on the validation split, of the base and of the trained model, one row each. With rl, it is
// the preference loss relative to the model that the run started from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dist/comm.h"
#include "recipe/recipe.h"
#include "train/metrics.h"

namespace dml {

struct Evaluation {
  std::string name;                     // "base", the adapter's directory …
  double loss = 0;                      // mean over labeled tokens, or as the recipe's objective defines it
  double perplexity = 0;                // NaN if the loss is not a token loss
  std::vector<NamedValue> values = {};  // the objective's further terms
  std::int64_t examples = 0, tokens = 0, trained = 0;
  double seconds = 0;
};

/// Returns one row for the base (of a training of all weights: if it is still there) and one for the trained model, or
/// for each of `adapters`, which replace the adapter in the output directory. `base_model`: this model instead, and it
/// with the given adapters. Every rank gets the same values.
std::vector<Evaluation> evaluate(const Recipe& recipe, Comm& comm, const std::vector<std::string>& adapters = {},
                                 const std::optional<std::string>& base_model = {});

}  // namespace dml
