// The registry rows of every optimizer file, in the order of lists. A new optimizer is a file and a line here.
#pragma once

#include <vector>

#include "optim/optimizer.h"

namespace dml {

using OptimizerRows = std::vector<Registry<OptimizerKind>::Row>;

OptimizerRows adam_rows();
OptimizerRows lion_rows();
OptimizerRows sgd_rows();
OptimizerRows rmsprop_rows();
OptimizerRows adagrad_rows();
OptimizerRows stable_adamw_rows();
OptimizerRows adafactor_rows();
OptimizerRows came_rows();
OptimizerRows muon_rows();
OptimizerRows schedule_free_rows();
OptimizerRows ademamix_rows();
OptimizerRows adopt_rows();
OptimizerRows nadam_rows();
OptimizerRows galore_rows();
OptimizerRows apollo_rows();

inline constexpr OptimizerRows (*kRules[])() = {adam_rows,    lion_rows,          sgd_rows,       rmsprop_rows,
                                                adagrad_rows, stable_adamw_rows,  adafactor_rows, came_rows,
                                                muon_rows,    schedule_free_rows, ademamix_rows,  adopt_rows,
                                                nadam_rows,   galore_rows,        apollo_rows};

/// The factory of an update rule.
template <class Rule>
std::unique_ptr<Optimizer> make_rule(const OptimizerSettings& settings) {
  return std::make_unique<Rule>(settings);
}

}  // namespace dml
