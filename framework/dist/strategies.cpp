// The table of distribution strategies.
#include "dist/strategy_rows.h"

namespace dml {

Registry<StrategyKind>& strategies() {
  static Registry<StrategyKind> registry("distribution strategy", [] {
    StrategyRows all;
    for (auto rows : kStrategies)
      for (auto& row : rows()) all.push_back(row);
    return all;
  }());
  return registry;
}

}  // namespace dml
