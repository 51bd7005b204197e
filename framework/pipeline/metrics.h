// metrics.jsonl: what happened, one JSON object a line, appended as it happens and in full precision.
//
//   {"step":12,"epoch":0.25,"loss":…,"grad_norm":…,"lr":…,"tokens":…,"learned_tokens":…,"tok_s":…,"step_s":…,"mem":…}
//   {"event":"eval","step":12,"epoch":0.25,"loss":…,"ppl":…}        other events: save, resume, warn …
//
// Steps only grow along the file. A resumed run cuts off what lies behind the step it goes on from, so that the file
// reads like one uninterrupted run. A number that is none (a diverged loss) is written as null.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace dml {

/// One optimizer step. `step` counts from 1: the number of steps done.
struct StepMetrics {
  std::int64_t step = 0;
  double epoch = 0;      // passes over the data done, with the share of the current one
  double loss = 0;       // mean over the labelled tokens of the global batch
  double grad_norm = 0;  // before clipping
  double lr = 0;
  std::int64_t tokens = 0;          // of the global batch
  std::int64_t learned_tokens = 0;  // … that count in the loss
  double tok_s = 0, step_s = 0;
  std::size_t mem = 0;  // resident bytes, summed over the ranks

  bool operator==(const StepMetrics&) const = default;
};

struct EvalMetrics {
  std::int64_t step = 0;
  double epoch = 0;
  double loss = 0;  // mean over the labelled tokens of the validation split

  double perplexity() const;
  bool operator==(const EvalMetrics&) const = default;
};

class MetricsLog {
 public:
  /// Opens `path` for appending. Of a file that is there, the lines up to and including `keep_until_step` stay, the
  /// first line beyond it or broken and everything after go; a fresh run keeps nothing (−1). IoError when it cannot be
  /// written.
  explicit MetricsLog(std::string path, std::int64_t keep_until_step = -1);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  void step(const StepMetrics& metrics);
  void eval(const EvalMetrics& metrics);
  /// Any other event; `fields` is an object whose members follow event and step.
  void event(std::string_view name, std::int64_t step, const Json& fields = Json::object());
  /// What was written survives a power cut; called when a checkpoint is saved.
  void sync();

  /// Everything in the file, the kept lines of an earlier run included.
  const std::vector<StepMetrics>& steps() const { return steps_; }
  const std::vector<EvalMetrics>& evals() const { return evals_; }

 private:
  void read_kept(std::int64_t keep_until_step);
  void append(std::string line);

  std::string path_;
  int fd_ = -1;
  std::vector<StepMetrics> steps_;
  std::vector<EvalMetrics> evals_;
};

}  // namespace dml
