// Finds the problems of a job before any work is done. `dml validate` and `dml train` call the same functions, so they
// agree; the data are checked by the code that prepares them (data/prepare.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assembly/base_model.h"
#include "diagnose/requirements.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"

namespace dml {

/// The errors that training would report for this model: targets, vocabulary, settings. Reads configs and headers only.
std::vector<Problem> training_problems(const Recipe& recipe, const BaseModel& base, const Tokenizer& tokenizer);

/// A line for each name in the recipe that is probably misspelt: keys of model_config, and targets of an adapter,
/// unless it starts from another one.
std::vector<std::string> misspelt_names(const Recipe& recipe, const BaseModel& base);

/// Opens the recipe's base; UserError when it cannot be trained.
BaseModel open_checked_base(const Recipe& recipe, const Tokenizer& tokenizer);

struct Validation {
  std::vector<Problem> problems;   // errors that later commands would report, with the places of the recipe's keys
  std::vector<std::string> notes;  // what was checked, what was not, and what only some commands reject
};

/// What was found in the rows of recipes that were validated before: those of a sweep share most of their data.
class CheckedRows {
 public:
  struct Entry {
    ModelSection model;
    DataSection data;
    TemplateSection templates;
    std::vector<Problem> problems;
    std::vector<std::string> notes;
    ExampleLengths lengths;
  };
  /// Null if rows like these were not checked. Another seed only chooses other rows for validation.
  const Entry* find(const Recipe& recipe) const;
  void add(Entry entry) { entries_.push_back(std::move(entry)); }

 private:
  std::vector<Entry> entries_;
};

/// Checks everything that the recipe names: the model's config and tensor headers, the tokenizer, an adapter to start
/// from, the rows of every dataset up to a limit of a few seconds, and the memory of a run. Writes nothing, and does
/// not throw for errors in the input. `known`: rows that need no second check; takes those of this recipe.
Validation validate(const RecipeFile& file, CheckedRows* known = nullptr);

}  // namespace dml
