// Starts ranks; shared by dml launch and dml train.
#pragma once

#include <string>
#include <vector>

#include "diagnose/launch.h"
#include "diagnose/layout.h"

namespace dml {

/// The mpirun command of the request on this host, with this command's output options for the ranks.
std::vector<std::string> line_of_ranks(LaunchRequest request);
/// Runs the line of the request by run_launcher(), and reports when a signal ended a rank or the ranks could not start.
/// `trains`: signals save and stop. Returns the exit code.
int run_ranks(const LaunchRequest& request, const std::vector<std::string>& line, bool trains);

/// Runs dml train with these arguments (a recipe and options) on ranks that this process starts and waits for.
int train_on_own_ranks(std::vector<std::string> words, const LayoutChoice& choice);
/// The choice, or one rank if mpirun cannot start that many.
LayoutChoice startable(LayoutChoice choice);

}  // namespace dml
