// dml evaluate: the loss on the validation split, of the base and of what was trained, side by side.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dist/comm.h"
#include "recipe/recipe.h"

namespace dml {

struct Evaluation {
  std::string name;  // "base", the adapter's directory …
  double loss = 0;   // mean over labelled tokens
  double perplexity = 0;
  std::int64_t examples = 0, tokens = 0, learned = 0;
  double seconds = 0;
};

/// One row for the base (adapters only) and one for the trained model. `adapter` overrides the output directory.
/// The same on every rank.
std::vector<Evaluation> evaluate(const Recipe& recipe, Comm& comm, const std::optional<std::string>& adapter);

}  // namespace dml
