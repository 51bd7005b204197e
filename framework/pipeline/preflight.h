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

/// The errors that training would report for this model, targets, vocabulary and settings. Reads configs and headers
/// only.
std::vector<Problem> training_problems(const Recipe& recipe, const BaseModel& base, const Tokenizer& tokenizer);

/// Opens the recipe's base; UserError where it cannot be trained.
BaseModel open_checked_base(const Recipe& recipe, const Tokenizer& tokenizer);

struct Validation {
  std::vector<Problem> problems;   // errors of later commands, with the places of the recipe's keys
  std::vector<std::string> notes;  // what was checked, what was not, and what only some commands refuse
};

/// Opens what the recipe names: the model's config and tensor headers, the tokenizer, an adapter to start from, and the
/// rows of every dataset, up to a limit that takes seconds; measures the memory of a run. Writes nothing, and does not
/// throw for errors in the input.
Validation validate(const RecipeFile& file);

}  // namespace dml
