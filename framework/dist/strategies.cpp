// The table of distribution strategies.
#include "dist/strategy_rows.h"

namespace dml {

Registry<StrategyKind>& strategies() {
  static Registry<StrategyKind> registry("distribution strategy", kStrategies);
  return registry;
}

}  // namespace dml
