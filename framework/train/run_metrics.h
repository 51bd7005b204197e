// Reads a metrics.jsonl (train/metrics_log.h), also of a run that is still in progress.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "train/metrics.h"

namespace dml {

/// A complete line of a metrics.jsonl.
struct MetricsLine {
  std::string_view text;
  std::string source;   // "FILE:LINE"
  bool damaged = true;  // no line that a run writes; nothing below is set then
  std::int64_t step = 0;
  std::variant<std::monostate, StepMetrics, EvalMetrics, SampleMetrics> metrics = {};  // none: an event of another name
};
/// Calls take(line) for the complete lines of `text` in order, until it returns false. `path` names the file.
void each_metrics_line(std::string_view text, const std::string& path, const std::function<bool(MetricsLine&&)>& take);

/// The contents of a metrics.jsonl.
struct RunMetrics {
  std::vector<StepMetrics> steps;
  std::vector<EvalMetrics> evals;
  std::vector<SampleMetrics> samples;

  /// Adds the complete lines of `text`; damaged ones are left out.
  void add(std::string_view text, const std::string& path);
};
/// Reads `folder`/metrics.jsonl. UserError when the file does not exist.
RunMetrics read_metrics(const std::string& folder);

/// The field of a value of evaluations: "loss" for kEvalLoss.
std::string field_of_evaluation(const std::string& name);

}  // namespace dml
