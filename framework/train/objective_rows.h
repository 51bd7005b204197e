// The objectives that a recipe may name in place of the one that follows from its data: losses of tokens, one function
// a file, and those of plug-ins. A new one is a file, and its name here.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/registry.h"
#include "train/objective.h"

namespace dml {

/// What the settings of a recipe say to an objective.
struct ObjectiveSettings {
  kernels::ExtraLoss extra = {};    // label smoothing and z-loss
  bool weighted = false;            // rows or messages of the data have weights
  Json arguments = Json::object();  // plugin_args.NAME
};

struct ObjectiveKind {
  std::function<std::unique_ptr<Objective>(const ObjectiveSettings&)> make;
  bool of_tokens = false;  // a loss of tokens, which preferences, rewards and reward models do not have; evaluations
                           // measure plain cross-entropy
  std::string flag = {};   // a key of Axolotl's whose `true` means this objective
};
Registry<ObjectiveKind>& objectives();

using ObjectiveRows = std::vector<Registry<ObjectiveKind>::Row>;

ObjectiveRows token_loss_rows();
ObjectiveRows dynamic_fine_tuning_rows();

inline constexpr ObjectiveRows (*kObjectives[])() = {token_loss_rows, dynamic_fine_tuning_rows};

}  // namespace dml
