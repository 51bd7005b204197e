// dml train: trains as the recipe describes, on all ranks that were started.
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
  /// directory. Unset: by the recipe (resume_from_checkpoint, auto_resume_from_checkpoints).
  std::optional<std::string> resume = {};
  /// Command-line settings, already applied to the recipe; recorded for `dml resume`.
  std::vector<Override> overrides = {};
  ProgressMode progress = ProgressMode::automatic;
  /// The layout of a run that dml train chose itself (pipeline/own_ranks.h).
  std::optional<LayoutChoice> layout = {};
};

/// Returns ok, or stopped if a signal or max_time ended the run early.
ExitCode train(const RecipeFile& recipe, Comm& comm, const TrainOptions& options = {});

}  // namespace dml
