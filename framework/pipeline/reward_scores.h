// dml score with a reward model: scores the rows of a file, or the pairs of a recipe's data.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "assembly/reward_model.h"
#include "dist/comm.h"
#include "pipeline/kept_rows.h"
#include "recipe/recipe.h"

namespace dml {

/// Passes one line of JSON per row of a JSONL file to `line`. A row is {"messages": …}, {"prompt": …, "completion": …}
/// or {"prompt": …, "chosen": …, "rejected": …}, where prompts and answers are strings or lists of messages; for models
/// that judge steps it is {"prompt": …, "completions": [text]}. UserError "FILE:LINE: …".
void score_file(RewardModel& model, const std::string& path, const std::function<void(const std::string&)>& line);
/// Writes these lines to `out`, whose earlier rows are kept. The last of them is computed again and must be the same.
void score_file(RewardModel& model, const std::string& path, KeptRows& out);

struct PairRewards {
  std::string place;  // "FILE:LINE"
  double chosen = 0, rejected = 0;
};

/// Scores the pairs of a recipe's data, in the order of the sources, with the reward model in output_dir or `adapter`.
/// A collective; the same on every rank.
std::vector<PairRewards> score_pairs(const Recipe& recipe, Comm& comm, const std::optional<std::string>& adapter);

}  // namespace dml
