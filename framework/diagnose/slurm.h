// dml launch --submit slurm: a batch script for Slurm, which saves when its time is up or when it must make room for
// another job, goes back to the queue and resumes there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "diagnose/launch.h"

namespace dml {

struct SlurmRequest {
  std::optional<std::string> time = {};  // as sbatch has it: MINUTES, HH:MM:SS, DAYS-HH …; unset: the partition's limit
  std::int64_t nodes = 1, ranks_per_node = 1;
  std::optional<std::string> partition = {}, account = {};
};

/// The script. `request` gives the command and, optionally, the threads of each rank; unset: the node's cores shared
/// among its ranks. A training gets `--resume auto`. UserError when the request makes no sense.
std::string slurm_script(const SlurmRequest& slurm, const LaunchRequest& request, const LaunchHost& host);
/// What the job is called, and the name of the script: "train-recipe" of `train path/recipe.yml`.
std::string slurm_name(const LaunchRequest& request);

}  // namespace dml
