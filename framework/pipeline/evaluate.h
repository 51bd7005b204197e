// dml evaluate: the loss on the validation split, of the base and of what was trained, one row each.
#pragma once

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

/// One row for the base (adapters only) and one for the trained model, or for each of `adapters`, which replace the one in
/// the output directory. The same on every rank.
std::vector<Evaluation> evaluate(const Recipe& recipe, Comm& comm, std::vector<std::string> adapters = {});

}  // namespace dml
