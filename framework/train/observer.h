// Observers of a run, and the actions they request: metrics, progress, signals, time limit, watchdog, early stopping.
// An observer is a file of its own, and an entry in the list of pipeline/observers.cpp.
//
// An observer that takes part in collectives is created on every rank; one that only writes, or that a plug-in has
// added, on rank 0 alone. The actions of all ranks are combined. An exception in on_start, on_step or on_eval ends the
// run after the checkpoint in progress is complete, whichever ranks it is on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/train_state.h"
#include "train/evaluator.h"
#include "train/metrics.h"

namespace dml {

/// Facts about a run at its start.
struct RunFacts {
  std::int64_t first_step = 0;  // steps already done: 0, or those of the checkpoint that is resumed
  std::int64_t steps = 0;       // of the whole run
  std::string output_dir = {};
  std::string resumed_from = {};                                   // a checkpoint; "" for a new run
  std::vector<Metric> metrics = {};                                // of the evaluations to come
  std::vector<std::pair<std::string, std::string>> settings = {};  // keys of the recipe that have a value, as YAML
};

/// Requests to the run after a step or an evaluation.
struct Action {
  bool save = false;    // a checkpoint, now
  bool finish = false;  // training ends here, as if this step were the last
  bool stop = false;    // the run is interrupted; it can be resumed

  Action& operator|=(const Action& other) {
    save |= other.save, finish |= other.finish, stop |= other.stop;
    return *this;
  }
};

struct SavedCheckpoint {
  std::string path;
  std::int64_t step = 0;
};

/// How the loop of a run ended.
struct RunEnd {
  enum class Reason { complete, finished_early, stopped };
  Reason reason = Reason::complete;
  std::int64_t step = 0;       // steps done
  std::int64_t saved_at = -1;  // step of the newest checkpoint; −1: there is none
};

class Observer {
 public:
  virtual ~Observer() = default;
  virtual Action on_start(const RunFacts& /*facts*/) { return {}; }
  /// Called before each step; `done` steps are finished. The model is not in use.
  virtual void before_step(std::int64_t /*done*/) {}
  /// The learning rate of the next step, given the schedule's. Must be the same on all ranks.
  virtual double learning_rate(double planned) const { return planned; }
  /// Called within a step or an evaluation (`what`): `done` of this rank's `total` micro-batches are finished.
  virtual void on_part(std::string_view /*what*/, std::int64_t /*step*/, std::int64_t /*done*/,
                       std::int64_t /*total*/) {}
  /// Requests that do not wait for the end of an evaluation; with `stop` it is given up, and repeated by the resumed
  /// run.
  virtual Action interrupts() const { return {}; }
  virtual Action on_step(const StepMetrics& /*metrics*/) { return {}; }
  virtual Action on_eval(const EvalMetrics& /*metrics*/, const std::vector<SampleMetrics>& /*samples*/) { return {}; }
  /// Called before a checkpoint is written; flushes logs to the disk.
  virtual void before_save() {}
  virtual void on_save(const SavedCheckpoint& /*saved*/) {}
  /// Called after the last step. Not called when an exception ends the run.
  virtual void on_end(const RunEnd& /*end*/) {}
  /// Writes and reads state that a resumed run needs; `state` is part of every checkpoint, `source` names the file.
  virtual void write_state(TrainState& /*state*/) const {}
  virtual void read_state(const TrainState& /*state*/, const std::string& /*source*/) {}
};

}  // namespace dml
