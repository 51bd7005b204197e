#include "optim/optimizer.h"

#include <algorithm>

#include "optim/rules.h"

namespace dml {

Registry<OptimizerKind>& optimizers() {
  static Registry<OptimizerKind> registry("optimizer", kRules);
  return registry;
}

std::size_t working_bytes(const Optimizer& optimizer, const ParameterStore& parameters) {
  std::size_t most = 0;
  for (const Unit& unit : parameters.units())
    for (const Parameter& p : unit.parameters) most = std::max(most, optimizer.working_bytes(p));
  return most;
}

}  // namespace dml
