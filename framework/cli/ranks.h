// Runs commands that support several ranks.
#pragma once

#include <functional>

#include "dist/comm.h"

namespace dml {

/// Reports the exception that is being handled in one line and returns its exit code. Rank 0 reports first, and ends
/// the other ranks, most of which have the same error.
int report_failure();

/// Runs `body` on this rank of those that mpirun or srun started (or on one). An error is printed once, by rank 0 if it
/// has it, else with the number of the rank, and ends all ranks with its exit code.
int run_on_ranks(const std::function<int(Comm&)>& body);

}  // namespace dml
