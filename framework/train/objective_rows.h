// The objectives that a recipe may select instead of the default one of its data: token losses, one function per file,
// and those of plug-ins. A new one is a file and an entry here.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/registry.h"
#include "train/objective.h"

namespace dml {

/// The settings of a recipe that an objective reads.
struct ObjectiveSettings {
  kernels::ExtraLoss extra = {};    // label smoothing and z-loss
  bool weighted = false;            // rows or messages of the data have weights
  Json arguments = Json::object();  // plugin_args.NAME
};

struct ObjectiveKind {
  std::function<std::unique_ptr<Objective>(const ObjectiveSettings&)> make;
  bool of_tokens = false;               // a token loss: not for preferences, rewards or reward models; evaluations
                                        // measure plain cross-entropy
  std::vector<std::string> flags = {};  // keys of Axolotl that select this objective when they are true
};
Registry<ObjectiveKind>& objectives();

using ObjectiveRows = std::vector<Registry<ObjectiveKind>::Row>;

ObjectiveRows token_loss_rows();
ObjectiveRows dynamic_fine_tuning_rows();

inline constexpr ObjectiveRows (*kObjectives[])() = {token_loss_rows, dynamic_fine_tuning_rows};

}  // namespace dml
