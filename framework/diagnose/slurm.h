// dml launch --submit slurm: writes a batch script for Slurm. Its job saves when its time is up or when it is
// preempted, is requeued, and resumes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "diagnose/launch.h"

namespace dml {

struct SlurmRequest {
  std::optional<std::string> time =
      {};  // in sbatch's format: MINUTES, HH:MM:SS, DAYS-HH …; unset: the partition's limit
  std::int64_t nodes = 1, ranks_per_node = 1;
  std::optional<std::string> partition = {}, account = {};
};

/// The script. `request`: the command and optionally the threads per rank; unset: the node's cores divided among its
/// ranks. Training gets `--resume auto` and is requeued. UserError for a contradictory request.
std::string slurm_script(const SlurmRequest& slurm, const LaunchRequest& request, const LaunchHost& host);
/// The job name, which also names the script: "train-recipe" for `train path/recipe.yml`.
std::string slurm_name(const LaunchRequest& request);

}  // namespace dml
