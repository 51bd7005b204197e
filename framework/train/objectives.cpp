// The table of objectives that a recipe may name.
#include "train/objective_rows.h"

namespace dml {

Registry<ObjectiveKind>& objectives() {
  static Registry<ObjectiveKind> registry("objective", kObjectives);
  return registry;
}

}  // namespace dml
