// dml evaluate: the loss on the validation split, of the base and of what was trained, one row each. With rl it is the
// loss of the preferences, against the model that the run started from.
#pragma once

#include <string>
#include <vector>

#include "dist/comm.h"
#include "recipe/recipe.h"
#include "train/metrics.h"

namespace dml {

struct Evaluation {
  std::string name;                     // "base", the adapter's directory …
  double loss = 0;                      // mean over labelled tokens, or as the recipe's objective says
  double perplexity = 0;                // NaN where the loss is none of tokens
  std::vector<NamedValue> values = {};  // what the objective logs beside its loss
  std::int64_t examples = 0, tokens = 0, trained = 0;
  double seconds = 0;
};

/// One row for the base (adapters only) and one for the trained model, or for each of `adapters`, which replace the one
/// in the output directory. Every rank gets the same values.
std::vector<Evaluation> evaluate(const Recipe& recipe, Comm& comm, std::vector<std::string> adapters = {});

}  // namespace dml
