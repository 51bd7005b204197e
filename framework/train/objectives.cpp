// The table of objectives that a recipe may name.
#include "train/objective_rows.h"

namespace dml {

Registry<ObjectiveKind>& objectives() {
  static Registry<ObjectiveKind> registry("objective", [] {
    ObjectiveRows all;
    for (auto rows : kObjectives)
      for (auto& row : rows()) all.push_back(row);
    return all;
  }());
  return registry;
}

}  // namespace dml
