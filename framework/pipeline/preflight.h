// What stands against a job, found before any work is done. `dml validate` and `dml train` ask the same functions, so they
// cannot disagree; the data are checked by the code that prepares them (data/prepare.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pipeline/base_model.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"

namespace dml {

/// Why training would refuse this model, with these targets, this vocabulary and these settings; one line each. Reads
/// configs and headers only.
std::vector<std::string> training_problems(const Recipe& recipe, const BaseModel& base, const Tokenizer& tokenizer);

struct Validation {
  std::vector<std::string> problems;  // what a later command refuses
  std::vector<std::string> notes;     // what was not checked, or is refused by some commands alone
};

/// Opens what the recipe names: the model's config and tensor headers, the tokenizer, an adapter to start from, and the first
/// rows of every dataset. Writes nothing and never throws for what the user gave.
Validation validate(const Recipe& recipe);

}  // namespace dml
