// Problems of a job, found before any work is done. `dml validate` and `dml train` call the same functions, so they
// cannot disagree; the data are checked by the code that prepares them (data/prepare.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assembly/base_model.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"

namespace dml {

/// Why training would refuse this model, with these targets, this vocabulary and these settings. Reads configs and
/// headers only.
std::vector<Problem> training_problems(const Recipe& recipe, const BaseModel& base, const Tokenizer& tokenizer);

/// The recipe's base, or why it cannot be trained, as UserError.
BaseModel open_checked_base(const Recipe& recipe, const Tokenizer& tokenizer);

struct Validation {
  std::vector<Problem> problems;   // what a later command refuses, with the places of the recipe's keys
  std::vector<std::string> notes;  // what was checked, what was not, and what only some commands refuse
};

/// Opens what the recipe names: the model's config and tensor headers, the tokenizer, an adapter to start from, and the
/// rows of every dataset, up to a limit that takes seconds; measures the memory of a run. Writes nothing, and throws
/// for nothing that the user gave.
Validation validate(const RecipeFile& file);

}  // namespace dml
