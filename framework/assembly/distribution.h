// Makes the strategy of a recipe's distribution section, and saves the part of its state that a checkpoint needs.
#pragma once

#include <memory>
#include <string>

#include "dist/strategy.h"
#include "model/build.h"
#include "recipe/recipe.h"

namespace dml {

/// The registry name of the recipe's strategy. If the recipe names none: ddp on several ranks, but zero1 for full
/// fine-tuning on one host, where there is no network latency to hide and replicated updates would compete for the same
/// memory bandwidth.
std::string strategy_name(const Recipe& recipe, const Comm& comm);
DistributionOptions distribution_options(const DistributionSection& section);
/// A collective.
std::unique_ptr<DistributionStrategy> make_strategy(const Recipe& recipe, Comm& comm);

/// Whether no rank ever holds all values.
bool trains_in_parts(const Recipe& recipe, const DistributionStrategy& strategy);
/// Whether trained values are stored in bfloat16 (by the strategies of dml).
bool trains_bf16(const Recipe& recipe);
inline TrainedValues trained_values(const Recipe& recipe, const DistributionStrategy& strategy) {
  return {trains_in_parts(recipe, strategy), trains_bf16(recipe) && strategy.holds_bf16()};
}

/// Publishes values that were set in the units after gather_values(): the strategy stores them and releases the units.
/// A collective.
void publish_values(const ParameterStore& parameters, DistributionStrategy& strategy);

/// The frozen matrices of the layers, by unit. Embedding and head are not included; they stay mapped.
std::vector<std::vector<kernels::Weight*>> frozen_of_layers(CausalLm& model);

/// Bytes of the packed copies of weights (nn/packed_weights.h) that a rank keeps by prepack_weights; 0: none. Unset,
/// it keeps them where they save time and take at most a quarter of the rank's `others`, the bytes of all else.
/// `weights_move`: frozen weights are sharded or change; `passes`: micro-batches of a rank in a step. UserError if the
/// recipe asks for copies of weights that move.
std::size_t packed_weight_bytes(CausalLm& model, const Recipe& recipe, const DistributionStrategy& strategy,
                                bool weights_move, std::int64_t passes, std::size_t others);
/// Whether a run shards its frozen matrices (shard_frozen_weights, or, if unset, by the hosts' memory); `bytes`: size
/// of the base. A collective.
bool shards_frozen(const DistributionSection& section, const DistributionStrategy& strategy, std::size_t bytes,
                   Comm& comm);

/// Writes this rank's residuals, the rounding errors of its bfloat16 gradients by unit, into the folder of an
/// unfinished checkpoint.
void write_residuals(const std::string& folder, std::span<const std::span<bf16>> units, const std::string& strategy,
                     const Comm& comm);
/// Reads the residuals back. Returns false if the checkpoint was made by another number of ranks or another strategy;
/// residuals then start at zero; a single rank, which rounds nothing, has none. A collective.
bool read_residuals(const std::string& checkpoint, DistributionStrategy& strategy, const std::string& name, Comm& comm);

}  // namespace dml
