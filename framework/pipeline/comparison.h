// Comparison of runs by their folders: curves, differing settings, evaluations, and answers to the same prompts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pipeline/report_chart.h"
#include "train/metrics_log.h"

namespace dml {

struct FinishedRun {
  std::string name, recipe;  // its folder; recipe.resolved.yml
  RunMetrics metrics;
};

/// The run in each folder, also one that is still under way. UserError naming every folder without one.
std::vector<FinishedRun> read_runs(const std::vector<std::string>& folders);

/// Loss, learning rate, gradient norm, tokens per second, and each metric that evaluations gave: a curve for every run.
std::vector<std::pair<std::string, Chart>> comparison_charts(const std::vector<FinishedRun>& runs);
std::string comparison_html(const std::vector<FinishedRun>& runs);

/// Writes each chart into `folder` as NAME.svg, and with `png` as NAME.png too, by rsvg-convert; the paths. UserError
/// when that program is not there.
std::vector<std::string> write_charts(const std::string& folder,
                                      const std::vector<std::pair<std::string, Chart>>& charts, bool png);

}  // namespace dml
