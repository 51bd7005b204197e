// From a recipe's distribution section to a strategy, and the part of its state that a checkpoint keeps.
#pragma once

#include <memory>
#include <string>

#include "dist/strategy.h"
#include "model/build.h"
#include "recipe/recipe.h"

namespace dml {

/// The name in the registry that a recipe means on these ranks. Where it says nothing: ddp on several, but zero1 for
/// full fine-tuning on one host, where no network waits to be hidden and every rank would update everything from the
/// same memory.
std::string strategy_name(const Recipe& recipe, const Comm& comm);
DistributionOptions distribution_options(const DistributionSection& section);
/// A collective.
std::unique_ptr<DistributionStrategy> make_strategy(const Recipe& recipe, Comm& comm);

/// Whether no rank ever holds all values.
bool trains_in_parts(const Recipe& recipe, const DistributionStrategy& strategy);
/// Whether values lie in bfloat16 under the strategies of dml.
bool trains_bf16(const Recipe& recipe);
inline TrainedValues trained_values(const Recipe& recipe, const DistributionStrategy& strategy) {
  return {trains_in_parts(recipe, strategy), trains_bf16(recipe) && strategy.holds_bf16()};
}

/// Values that were set in the units between gather_values() and now become those that the strategy keeps; releases
/// them. A collective.
void publish_values(const ParameterStore& parameters, DistributionStrategy& strategy);

/// The frozen matrices of the layers, by unit; embedding and head stay where they are mapped.
std::vector<std::vector<kernels::Weight*>> frozen_of_layers(CausalLm& model);
/// Whether a run is to shard them (shard_frozen_weights, or by what the hosts have); `bytes` of the base. A collective.
bool shards_frozen(const DistributionSection& section, const DistributionStrategy& strategy, std::size_t bytes,
                   Comm& comm);

/// Writes the rounding errors of a rank's gradients in bfloat16, by unit, into the folder of a checkpoint that is being
/// written.
void write_residuals(const std::string& folder, std::span<const std::span<bf16>> units, const std::string& strategy,
                     const Comm& comm);
/// A collective. False where the checkpoint was made by another number of ranks or another strategy: residuals then
/// begin with zero.
bool read_residuals(const std::string& checkpoint, DistributionStrategy& strategy, const std::string& name, Comm& comm);

}  // namespace dml
