// From a recipe to those that watch a run. A new observer is a file of its own and a line here.
#pragma once

#include <memory>
#include <vector>

#include "core/clock.h"
#include "pipeline/run_plan.h"
#include "train/metrics_log.h"
#include "train/observer.h"
#include "train/progress.h"

namespace dml {

using Observers = std::vector<std::unique_ptr<Observer>>;

/// Those that every rank has: they decide, or take part in what all ranks do. `started`: when the time limit began to
/// count.
Observers make_policies(RunPlan& plan, Clock::time_point started);

/// Those of rank 0, which write and show. Returns the log of the run, which belongs to the list. `from`: the checkpoint
/// that the run resumes from, "" for none.
MetricsLog* add_writers(Observers& observers, const RunPlan& plan, const TrainState& state, const std::string& from,
                        ProgressMode progress);

}  // namespace dml
