// dml init: writes a recipe for a model directory and data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipeline/init_data.h"

namespace dml {

struct InitRequest {
  std::string model, data;
  std::string output;  // the recipe's file; "" names it after the data, in the working directory
  bool force = false;  // replaces a file that is there
  ColumnHints columns;
  std::optional<AdapterKind> adapter;  // unset: by the model's size and the memory there is
};

struct InitResult {
  std::string path;                // of the recipe
  std::vector<std::string> lines;  // what was found and chosen
  std::vector<std::string> notes;  // points that the user should check
  std::string train, infer;        // the next commands
};

/// Writes the recipe. UserError for a model or data that cannot be used, and for a file that is there already.
InitResult init_recipe(const InitRequest& request);

/// "faq.yml" for "data/faq.csv".
std::string recipe_name(const std::string& data);

}  // namespace dml
