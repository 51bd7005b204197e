// report.html: a run on one page that opens anywhere, offline: inline SVG, no script, light and dark, all text escaped.
// loss.svg beside it is the loss chart alone.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pipeline/metrics.h"

namespace dml {

struct ReportTable {
  std::string title;
  std::vector<std::string> header;  // may be empty
  std::vector<std::vector<std::string>> rows;
};

/// The same prompt answered before and after training.
struct ReportSample {
  std::string prompt, before, after;
};

struct Report {
  std::string title;                                       // the run's name
  std::string subtitle;                                    // one sentence: what was trained on what
  std::vector<std::pair<std::string, std::string>> facts;  // model, trained parameters, data, ranks, time …
  std::vector<StepMetrics> steps;
  std::vector<EvalMetrics> evals;
  std::vector<ReportTable> tables;  // statistics of the data and whatever else is worth a table
  std::vector<ReportSample> samples;
  std::vector<std::string> warnings;
};

std::string report_html(const Report& report);

/// The loss of every step, its moving average and the validation loss, as a picture of its own.
std::string loss_svg(const std::vector<StepMetrics>& steps, const std::vector<EvalMetrics>& evals);

/// Writes `folder`/report.html and `folder`/loss.svg, each atomically. IoError when that fails.
void write_report(const std::string& folder, const Report& report);

}  // namespace dml
