#include "assembly/distribution.h"

#include <cstring>

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "core/files.h"
#include "core/memory_limits.h"
#include "kernels/processor.h"
#include "nn/packed_weights.h"

namespace dml {
namespace {

std::string residual_file(const std::string& folder, int rank) {
  return fmt::format("{}/residual-{}.safetensors", folder, rank);
}

std::string tensor_name(std::size_t unit) { return fmt::format("residual/{}", unit); }

bool read_mine(const std::string& path, DistributionStrategy& strategy, const std::string& made_by) {
  if (!file_exists(path)) return false;
  SafetensorsFile file(path);
  if (std::ranges::find(file.metadata(), std::pair<std::string, std::string>{"made_by", made_by}) ==
      file.metadata().end())
    return false;
  auto units = strategy.residuals();
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (units[u].empty()) continue;
    const TensorView& tensor = file.at(tensor_name(u));
    if (tensor.dtype != DType::bf16 || tensor.bytes.size() != units[u].size_bytes())
      throw UserError("{}: tensor '{}' is not of this model", path, tensor.name);
    std::memcpy(units[u].data(), tensor.bytes.data(), tensor.bytes.size());
  }
  return true;
}

std::string maker(const std::string& name, const Comm& comm) {
  return fmt::format("{} on {} ranks", name, comm.size());
}

}  // namespace

std::string strategy_name(const Recipe& recipe, const Comm& comm) {
  if (recipe.distribution.distribution) return *recipe.distribution.distribution;
  if (comm.size() == 1) return "none";
  return recipe.adapter.adapter == AdapterKind::none && comm.local_size() == comm.size() ? "zero1" : "ddp";
}

DistributionOptions distribution_options(const DistributionSection& section) {
  DistributionOptions options;
  options.tree = section.gradient_tree;
  options.wire.type = section.comm_dtype;
  options.shard_size = static_cast<int>(section.dp_shard_size.value_or(0));
  return options;
}

std::unique_ptr<DistributionStrategy> make_strategy(const Recipe& recipe, Comm& comm) {
  DistributionOptions options = distribution_options(recipe.distribution);
  options.plugin_args = recipe.plugin.plugin_args;
  try {
    return strategies().at(strategy_name(recipe, comm)).make(comm, options);
  } catch (const UserError& error) {
    throw error.about("distribution");
  }
}

std::vector<std::vector<kernels::Weight*>> frozen_of_layers(CausalLm& model) {
  std::vector<std::vector<kernels::Weight*>> units(model.parameters.units().size());
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    for (Linear* linear : model.layers[l].linears())
      if (linear->frozen && !linear->weight && linear->frozen.dtype != DType::mxfp4)
        units[l + 1].push_back(&linear->frozen);
  }
  return units;
}

std::size_t packed_weight_bytes(CausalLm& model, const Recipe& recipe, const DistributionStrategy& strategy,
                                bool weights_move, std::int64_t passes, std::size_t others) {
  const std::optional<bool> wanted = recipe.train.prepack_weights;
  const bool moves = weights_move || trains_in_parts(recipe, strategy);
  if (wanted == true && moves)
    throw UserError(
        "prepack_weights: true needs weights that stay in place, and this distribution shards them; remove "
        "prepack_weights, or set distribution: zero2 or ddp")
        .about("prepack_weights");
  // Measured (bench/LOG.md): 3 to 13 % of the products' time in bf16, 1 to 2 % in float32.
  const bool saves = kernels::precision() == DType::bf16 && (recipe.adapter.adapter != AdapterKind::none || passes > 1);
  if (moves || !wanted.value_or(saves)) return 0;
  const std::size_t bytes = PackedWeights::bytes(model.layer_linears());
  return wanted || bytes <= others / 4 ? bytes : 0;
}

bool trains_in_parts(const Recipe& recipe, const DistributionStrategy& strategy) {
  return recipe.adapter.adapter == AdapterKind::none && strategy.shard_ranks() > 1;
}

bool trains_bf16(const Recipe& recipe) {
  return recipe.adapter.adapter == AdapterKind::none && recipe.optim.bf16_weights != Bf16Weights::off;
}

void publish_values(const ParameterStore& parameters, DistributionStrategy& strategy) {
  for (Shard& s : strategy.shards()) {
    const std::span<std::byte> values = s.value_bytes();
    const std::byte* from = parameters.units()[s.unit].value.from(s.parameter->offset + s.first).data;
    if (from != values.data()) std::memcpy(values.data(), from, values.size());
  }
  strategy.release_values();
  strategy.publish();
}

bool shards_frozen(const DistributionSection& section, const DistributionStrategy& strategy, std::size_t bytes,
                   Comm& comm) {
  if (strategy.shard_ranks() == 1) return false;
  if (section.shard_frozen_weights) return *section.shard_frozen_weights;
  const bool too_large = comm.local_size() < strategy.shard_ranks() && bytes > available_memory();
  return comm.any(too_large);
}

void write_residuals(const std::string& folder, std::span<const std::span<bf16>> units, const std::string& strategy,
                     const Comm& comm) {
  std::vector<TensorInfo> infos;
  for (std::size_t u = 0; u < units.size(); ++u)
    if (!units[u].empty()) infos.push_back({tensor_name(u), DType::bf16, {static_cast<std::int64_t>(units[u].size())}});
  if (infos.empty()) return;
  SafetensorsWriter writer(residual_file(folder, comm.rank()), std::move(infos), {{"made_by", maker(strategy, comm)}});
  for (const TensorInfo& info : writer.tensors()) {
    auto values = units[static_cast<std::size_t>(std::stoul(info.name.substr(info.name.find('/') + 1)))];
    writer.append(values.data(), values.size_bytes());
  }
  writer.commit();
}

bool read_residuals(const std::string& checkpoint, DistributionStrategy& strategy, const std::string& name,
                    Comm& comm) {
  if (strategy.residuals().empty()) return !file_exists(residual_file(checkpoint, 0));  // as with one rank
  bool read = read_mine(residual_file(checkpoint, comm.rank()), strategy, maker(name, comm));
  if (!comm.any(!read)) return true;
  for (auto unit : strategy.residuals()) std::ranges::fill(unit, bf16{0});
  return false;
}

}  // namespace dml
