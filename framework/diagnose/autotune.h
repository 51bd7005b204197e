// dml launch --autotune: which number of ranks and threads trains a recipe fastest on this host, found by measuring
// each with dml bench.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "diagnose/launch.h"
#include "diagnose/layout.h"

namespace dml {

struct LayoutRate {
  Layout layout;
  double tokens_per_second = 0;
  std::string problem = {};  // why there is no rate

  std::string text() const;
};

/// The words of the dml bench that measures what `train`, RECIPE and its options would do. UserError for other
/// commands.
std::vector<std::string> bench_words(const std::vector<std::string>& command);

/// The rate that a dml bench --json printed, with messages around it; or the last of them as the problem.
LayoutRate rate_from(const Layout& layout, const std::string& output);

/// Measures layouts in turn, and says each rate, until two in a row are clearly slower than the best. UserError with
/// the first one's problem when none can run.
LayoutRate fastest_layout(const LaunchRequest& request, const LaunchHost& host, std::int64_t micro_batches,
                          const std::function<void(const LayoutRate&)>& say);

}  // namespace dml
