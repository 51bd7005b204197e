// dml launch --autotune: finds the number of ranks and threads that trains a recipe fastest on this host, by measuring
// layouts with dml bench.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "diagnose/launch.h"
#include "diagnose/layout.h"

namespace dml {

struct LayoutRate {
  RankLayout layout;
  double tokens_per_second = 0;
  std::string problem = {};  // why the layout could not be measured

  std::string text() const;
};

/// The arguments of the dml bench command that measures `command` (train, RECIPE and options). UserError for other
/// commands.
std::vector<std::string> bench_arguments(const std::vector<std::string>& command);

/// Parses the output of dml bench --json, which may contain messages: the rate, or the last message as the problem.
LayoutRate rate_from(const RankLayout& layout, const std::string& output);

/// Measures layouts in turn and passes each result to `say`, until two in a row are clearly slower than the best.
/// UserError with the first layout's problem when none can run.
LayoutRate fastest_layout(const LaunchRequest& request, const LaunchHost& host, std::int64_t micro_batches,
                          const std::function<void(const LayoutRate&)>& say);

}  // namespace dml
