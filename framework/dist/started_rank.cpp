#include "dist/started_rank.h"

#include <cstdlib>
#include <initializer_list>

#include "core/error.h"

namespace dml {

bool is_started_rank() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") || std::getenv("PMIX_RANK") || std::getenv("PMI_RANK");
}

StartedRank started_rank() {
  const auto number = [](std::initializer_list<const char*> names, int fallback) {
    for (const char* name : names)
      if (const char* text = std::getenv(name)) return std::atoi(text);
    return fallback;
  };
  if (!is_started_rank()) return {};
  return {number({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}, 0),
          number({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, 1)};
}

void refuse_tasks_without_mpi() {
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  if (tasks != nullptr && std::atoi(tasks) > 1)
    throw UserError("srun started {} processes without MPI; use srun --mpi=pmix, or start one task (srun -n 1)", tasks);
}

}  // namespace dml
