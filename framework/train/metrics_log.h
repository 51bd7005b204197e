// metrics.jsonl: the metrics of a run, one JSON object a line, appended during the run in full precision.
//
//   {"step":12,"epoch":0.25,"loss":…,"grad_norm":…,"lr":…,"tokens":…,"trained_tokens":…,"tok_s":…,"step_s":…,"mem":…,"time":…}
//   {"event":"eval","step":12,"epoch":0.25,"loss":…,"ppl":…}
//   {"event":"sample","step":12,"prompt":…,"expected":…,"text":…,"base":…}   base: the answer before the first step
//
// Named values follow these fields under their own names. docs/metrics.md explains every field; a test compares that
// page with the lines written here. Steps never decrease along the file. A resumed run begins with the lines up to the
// step it resumes from (train/metrics_history.h), so the file reads like that of one uninterrupted run. A number that
// is not finite (a diverged loss) is written as null. train/run_metrics.h reads it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/appended_file.h"
#include "core/json.h"
#include "train/metrics_history.h"
#include "train/observer.h"
#include "train/run_metrics.h"

namespace dml {

class MetricsLog : public Observer {
 public:
  /// Opens `path` for appending. It begins with the lines before the step that the run resumes from; damaged ones are
  /// left out, with a warning. A new run keeps nothing. IoError when it cannot be written.
  MetricsLog(std::string path, const MetricsBefore& before);
  /// The lines up to and including `keep_until_step` are kept.
  explicit MetricsLog(std::string path, std::int64_t keep_until_step = -1)
      : MetricsLog(std::move(path), MetricsBefore{keep_until_step}) {}

  void step(const StepMetrics& metrics);
  void eval(const EvalMetrics& metrics);
  void sample(SampleMetrics sample);
  /// Flushes to disk; called when a checkpoint is saved.
  void sync() { file_.sync(); }

  Action on_step(const StepMetrics& metrics) override {
    step(metrics);
    return {};
  }
  Action on_eval(const EvalMetrics& metrics, const std::vector<SampleMetrics>& samples) override;
  void before_save() override { sync(); }

  /// The whole contents of the file, including the lines of the run that this one resumes.
  const std::vector<StepMetrics>& steps() const { return all_.steps; }
  const std::vector<EvalMetrics>& evals() const { return all_.evals; }
  const std::vector<SampleMetrics>& samples() const { return all_.samples; }
  /// The log_history of transformers' Trainer: an entry for every step, each evaluation after its step.
  std::vector<Json> log_history() const;

 private:
  void append(const std::string& line) { file_.append(line + "\n"); }

  RunMetrics all_;
  AppendedFile file_;
};

}  // namespace dml
