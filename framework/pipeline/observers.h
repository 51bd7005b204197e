// Makes the observers of a run from its recipe. A new observer is a file of its own and an entry here.
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

/// The observers that run on every rank: they request actions or take part in collectives. `started`: the start of
/// max_time.
Observers make_policies(RunPlan& plan, Clock::time_point started);

/// Adds the observers of rank 0, which write logs and show progress. Returns the metrics log, owned by the list.
/// `from`: the checkpoint that the run resumes from; "" for a new run.
MetricsLog* add_writers(Observers& observers, const RunPlan& plan, const TrainState& state, const std::string& from,
                        ProgressMode progress);

}  // namespace dml
