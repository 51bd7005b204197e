// dml train: trains what the recipe describes, on as many ranks as were started.
#pragma once

#include <optional>
#include <string>

#include "core/error.h"
#include "dist/comm.h"
#include "recipe/recipe.h"

namespace dml {

struct TrainOptions {
  /// "auto": the newest valid checkpoint of the output directory if there is one; "none"; or a checkpoint directory.
  /// Unset: as the recipe says (resume_from_checkpoint, auto_resume_from_checkpoints).
  std::optional<std::string> resume;
};

/// ok, or stopped when a signal or max_time ended the run after a checkpoint.
ExitCode train(const RecipeFile& recipe, Comm& comm, const TrainOptions& options = {});

}  // namespace dml
