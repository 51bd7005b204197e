// Comparison of runs by their folders: curves, differing settings, evaluations, and answers to the same prompts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pipeline/report_chart.h"
#include "train/run_metrics.h"

namespace dml {

struct FinishedRun {
  std::string name, recipe;  // its folder; recipe.resolved.yml
  RunMetrics metrics;
};

/// Reads the run in each folder; it may still be in progress. UserError naming every folder without a run.
std::vector<FinishedRun> read_runs(const std::vector<std::string>& folders);

/// Charts of loss, learning rate, gradient norm, tokens per second and each evaluation metric, with one curve per run.
std::vector<std::pair<std::string, Chart>> comparison_charts(const std::vector<FinishedRun>& runs);
std::string comparison_html(const std::vector<FinishedRun>& runs);

/// Writes each chart into `folder` as NAME.svg and, with `png`, also as NAME.png by rsvg-convert; returns the paths.
/// UserError when that program is missing.
std::vector<std::string> write_charts(const std::string& folder,
                                      const std::vector<std::pair<std::string, Chart>>& charts, bool png);

}  // namespace dml
