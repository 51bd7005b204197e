// The lines with which a resumed run begins its metrics.jsonl: those of the run that wrote the checkpoint, up to the
// checkpoint's step. What is missing or damaged there is restored from the checkpoint's trainer_state.json, which has
// the losses and evaluations of all steps before it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dml {

struct MetricsBefore {
  std::int64_t step = -1;       // of the checkpoint; -1: a new run
  std::string checkpoint = {};  // its folder; "": the file's own lines are continued
  bool evaluated = true;        // false: the evaluation after this step is repeated
};

struct MetricsHistory {
  std::vector<std::string> lines;
  std::vector<std::string> damaged;  // places of the lines that could not be read, "FILE:LINE"
  std::int64_t restored = 0;         // the number of lines from trainer_state.json
};

/// `path`: the metrics.jsonl of the resumed run.
MetricsHistory metrics_history(const std::string& path, const MetricsBefore& before);
/// What was damaged or restored, as a warning; "" if nothing was. `path`: the file that the lines are written to.
std::string history_warning(const MetricsHistory& history, const std::string& path, const MetricsBefore& before);

}  // namespace dml
