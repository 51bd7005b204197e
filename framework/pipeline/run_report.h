// Collects the contents of report.html from the run's plan, its metrics and this host.
#pragma once

#include <string>

#include "pipeline/report.h"
#include "pipeline/run_plan.h"
#include "train/metrics_log.h"

namespace dml {

/// `seconds`: duration of the run; `result_step`: step of the weights that were written; `command`: the run's command
/// line.
Report run_report(const RunPlan& plan, const MetricsLog& log, double seconds, std::int64_t result_step,
                  const std::string& command);

/// Pairs the first and the last text that was generated for each prompt.
std::vector<ReportSample> before_and_after(const std::vector<SampleMetrics>& samples);

}  // namespace dml
