// dml score: the loss of every row of a recipe's data, of the base and of what was trained.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dist/comm.h"
#include "recipe/recipe.h"

namespace dml {

struct RowScore {
  std::string place;  // "FILE:LINE"
  std::int64_t tokens = 0, trained_tokens = 0;
  double base_loss = 0;                   // mean over trained tokens
  std::optional<double> loss = {};        // of the trained model, where there is one
};

/// Of every example, in the order of the sources; the same on every rank. `adapter` takes the place of the one in output_dir;
/// "none": the base alone. A collective.
std::vector<RowScore> score_rows(const Recipe& recipe, Comm& comm, const std::optional<std::string>& adapter);

/// One line of JSON: {"row": number, "place": …, "tokens": …, "trained_tokens": …, "loss": …, "perplexity": …, "base_loss": …,
/// "difference": base_loss − loss}; without a trained model the loss is the base's.
std::string score_line(std::size_t row, const RowScore& score);

}  // namespace dml
