// report.html: a run on one self-contained page: inline SVG, no scripts, light and dark themes, all text escaped.
// loss.svg is the loss chart as a separate file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pipeline/report_chart.h"
#include "train/metrics.h"

namespace dml {

struct ReportTable {
  std::string title;
  std::vector<std::string> header;  // may be empty
  std::vector<std::vector<std::string>> rows;
};

/// A prompt with its answers before and after training.
struct ReportSample {
  std::string prompt, before, after;
  std::string expected = {};  // the answer of the data; may be empty
};

struct Report {
  std::string title;     // the run's name
  std::string subtitle;  // one sentence: what was trained on what
  std::vector<std::pair<std::string, std::string>>
      facts;  // model, trained parameters, data, ranks, time, host, version …
  std::vector<StepMetrics> steps;
  std::vector<EvalMetrics> evals;
  std::int64_t result_step = -1;    // step of the weights that were written; −1: the last
  std::vector<ReportTable> tables;  // statistics of the data, and other tables
  std::vector<ReportSample> samples;
  std::vector<std::string> warnings;
  std::string command;                   // the command of the run
  std::string recipe_name, recipe_text;  // the recipe file
};

/// The result of the run in one line, with details.
struct Headline {
  std::string what;  // "Reward", "Validation loss", or "Training loss" without a validation split; empty: too little
                     // was measured
  double from = 0, to = 0;
  std::string detail;  // steps, perplexity, the best step
  bool worse = false;  // by RunOutcome::worse()
};

/// Validation loss: from the first evaluation to the last one up to the result. Reward and training loss: the means of
/// outcome_of_tenths().
Headline headline(const Report& report);

std::string report_html(const Report& report);
/// All charts of a report with file names: loss, learning-rate, gradient-norm, tokens-per-second, memory, then one
/// chart for each other evaluation metric under its own name.
std::vector<std::pair<std::string, Chart>> report_charts(const Report& report);

/// Building blocks of pages: the page around a body (markup), a table with its title, a chart in a figure.
std::string page_html(const std::string& title, const std::string& subtitle, const std::string& body);
std::string table_html(const ReportTable& table);
std::string figure_html(Chart chart);

/// The loss of every step, its moving average and the validation loss, as a standalone SVG file.
std::string loss_svg(const Report& report);

/// Writes `folder`/report.html and `folder`/loss.svg, each atomically. IoError when that fails.
void write_report(const std::string& folder, const Report& report);

}  // namespace dml
