// Starting ranks: what dml launch and dml train have in common.
#pragma once

#include <string>
#include <vector>

#include "diagnose/launch.h"
#include "diagnose/layout.h"

namespace dml {

/// The mpirun line of the request on this host, with the output options of this command for the ranks.
std::vector<std::string> line_of_ranks(LaunchRequest request);
/// Runs it (run_launcher()) and says when a signal ended a rank. `trains`: signals save and stop. The exit code.
int run_ranks(const std::vector<std::string>& line, bool trains);

/// dml train with these words (a recipe and options), on ranks that this process starts and waits for.
int train_on_own_ranks(std::vector<std::string> words, const LayoutChoice& choice);
/// The choice, or one rank where mpirun cannot start so many.
LayoutChoice startable(LayoutChoice choice);

}  // namespace dml
