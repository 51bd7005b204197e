// The rows of every rule, one function a file. A new optimizer is a file and a line here and in optimizers.cpp.
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
OptimizerRows galore_rows();
OptimizerRows apollo_rows();

/// The factory of a rule.
template <class Rule>
std::unique_ptr<Optimizer> make_rule(const OptimizerSettings& settings) {
  return std::make_unique<Rule>(settings);
}

}  // namespace dml
