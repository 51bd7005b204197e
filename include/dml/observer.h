// An observer is notified of steps, evaluations and checkpoints of a run, and may request a checkpoint or the end of
// the run. It exists on rank 0 only.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dml/registry.h"

namespace dml::plugin {

using NamedValues = std::vector<std::pair<std::string, double>>;

struct RunFacts {
  std::int64_t first_step = 0;  // steps done before this run: those of the checkpoint that it resumes from
  std::int64_t steps = 0;       // of the whole run
  std::string output_dir;
  std::string resumed_from;  // a checkpoint; "" for a new run
};

struct StepMetrics {
  std::int64_t step = 0;  // from 1
  double epoch = 0, loss = 0, grad_norm = 0, learning_rate = 0;
  std::int64_t tokens = 0, trained_tokens = 0;  // of the global batch
  double tokens_per_second = 0, seconds = 0;
  std::uint64_t memory = 0;  // resident memory of all ranks, in bytes
  NamedValues values;        // the terms of the objective
};

struct EvalMetrics {
  std::int64_t step = 0;
  double epoch = 0;
  NamedValues values;  // "eval_loss" …
};

struct Sample {
  std::string prompt, expected, text;
};

/// Requests of an observer to the run.
struct Action {
  bool save = false;    // save a checkpoint now
  bool finish = false;  // end training as if this step were the last
  bool stop = false;    // save and interrupt the run; it can be resumed
};

enum class End { complete, finished_early, stopped };

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_start(const RunFacts& /*facts*/) {}
  virtual Action on_step(const StepMetrics& /*metrics*/) { return {}; }
  virtual Action on_eval(const EvalMetrics& /*metrics*/, const std::vector<Sample>& /*samples*/) { return {}; }
  virtual void on_save(const std::string& /*checkpoint*/, std::int64_t /*step*/) {}
  /// Called at the end of a run, unless an error ends it.
  virtual void on_end(End /*how*/, std::int64_t /*steps*/) {}
  /// State that a resumed run needs, stored in every checkpoint; null if there is none.
  virtual Json state() const { return nullptr; }
  virtual void restore(const Json& /*state*/) {}
};

}  // namespace dml::plugin
