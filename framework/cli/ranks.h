// Commands that may run on several ranks.
#pragma once

#include <functional>

#include "dist/comm.h"

namespace dml {

/// Starts the ranks that mpirun or srun gave us (or one) and runs `body` on this one. An error is printed with its rank and
/// ends all ranks at once with its exit code.
int run_on_ranks(const std::function<int(Comm&)>& body);

}  // namespace dml
