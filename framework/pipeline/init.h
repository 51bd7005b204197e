// dml init: writes a recipe for a model directory and data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipeline/init_data.h"

namespace dml {

struct InitRequest {
  std::string model, data;
  std::string output;  // the recipe's file; "": named after the data, in the working directory
  bool force = false;  // overwrite an existing file
  ColumnHints columns;
  std::optional<AdapterKind> adapter;  // unset: chosen by the model's size and the available memory
};

struct InitResult {
  std::string path;                // of the recipe
  std::vector<std::string> lines;  // what was found and chosen
  std::vector<std::string> notes;  // points that the user should check
  std::string train, infer;        // the next commands
};

/// Writes the recipe. UserError for a model or data that cannot be used, and for a file that already exists.
InitResult init_recipe(const InitRequest& request);

/// "faq.yml" for "data/faq.csv".
std::string recipe_name(const std::string& data);

}  // namespace dml
