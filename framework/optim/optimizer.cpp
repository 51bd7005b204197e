#include "optim/optimizer.h"

#include <algorithm>

#include "core/error.h"
#include "optim/rules.h"

namespace dml {
namespace {

OptimizerRows all_rows() {
  OptimizerRows all;
  for (auto rows : kRules)
    for (auto& row : rows()) all.push_back(std::move(row));
  return all;
}

}  // namespace

Registry<OptimizerKind>& optimizers() {
  static Registry<OptimizerKind> registry("optimizer", all_rows());
  return registry;
}

std::size_t working_bytes(const Optimizer& optimizer, const ParameterStore& parameters) {
  std::size_t most = 0;
  for (const Unit& unit : parameters.units())
    for (const Parameter& p : unit.parameters) most = std::max(most, optimizer.working_bytes(p));
  return most;
}

}  // namespace dml
