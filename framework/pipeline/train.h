// dml train: trains what the recipe describes, on as many ranks as were started.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "diagnose/layout.h"
#include "dist/comm.h"
#include "recipe/recipe.h"
#include "train/progress.h"

namespace dml {

struct TrainOptions {
  /// "auto": the newest complete checkpoint of the output directory, if there is one; "none"; or a checkpoint
  /// directory. Unset: as the recipe says (resume_from_checkpoint, auto_resume_from_checkpoints).
  std::optional<std::string> resume = {};
  /// Settings of the command line, already applied to the recipe: remembered for `dml resume`.
  std::vector<Override> overrides = {};
  ProgressMode progress = ProgressMode::automatic;
  /// Of a run that dml train laid out by itself (pipeline/own_ranks.h).
  std::optional<LayoutChoice> layout = {};
};

/// ok, or stopped when a signal or max_time ended the run early.
ExitCode train(const RecipeFile& recipe, Comm& comm, const TrainOptions& options = {});

}  // namespace dml
