// Writes trained models: PEFT adapter directories, Hugging Face model directories, and their files in checkpoints.
#pragma once

#include <span>
#include <stop_token>
#include <string>

#include "assembly/base_model.h"
#include "assembly/vocabulary.h"
#include "checkpoint/model_parts.h"
#include "core/files.h"
#include "dist/strategy.h"
#include "model/causal_lm.h"

namespace dml {

/// Writes adapter_config.json and adapter_model.safetensors from the units' current values, or from `copies` of them.
void write_adapter_directory(const std::string& directory, const AdapterConfig& config, const CausalLm& model,
                             std::span<const std::span<float>> copies = {}, DType dtype = DType::f32);

/// The model's spec after merging its adapters: a sum of several adapters may untie the head from the embedding.
/// It has the rows of `more`. UserError when an adapter has a bias and its layer has none to merge it into.
ModelSpec merged_spec(CausalLm& model, const NewRows& more = {});

/// The values of a tensor after merging, with the rows of `more` if it is the embedding or the head. `rows`: the
/// weights of this tensor, as weight_names() lists them for the model's own spec.
std::vector<float> merged_values(CausalLm& model, std::span<const WeightName> rows, const NewRows& more);

/// Writes config.json and safetensors (sharded if large) tensor by tensor; at most one is in memory. Tensors of the
/// base that the model does not know are copied. Calls `show(unit)` before it reads the values of a unit.
void write_model_directory(const std::string& directory, const BaseModel& base, CausalLm& model, DType dtype,
                           const DistributionStrategy::Show& show = {});
/// The same with adapters merged; embedding and head get the rows of `more`.
void write_merged_directory(const std::string& directory, const BaseModel& base, CausalLm& model, DType dtype,
                            const NewRows& more = {});

/// Writes the same files, bit for bit, from shards or copies of them: each rank writes its own shards, on a file system
/// that all ranks share. All arguments must outlive this object.
class ShardedModelWriter {
 public:
  /// Whether the model can be written this way: no tensor may be stored transposed, frozen, or trained in part.
  static bool possible(const CausalLm& model);

  ShardedModelWriter(std::string directory, const BaseModel& base, CausalLm& model, DType dtype);
  /// Creates the files; called on one rank, before any rank writes.
  void create() { parts_.create(); }
  enum class Tensors { of_shards, all };  // all: also those in no shard, and the configuration; on one rank
  /// Writes the shards to the disk. Leaves the files incomplete when it is stopped.
  void write(std::span<const Shard> shards, Tensors tensors, const std::stop_token& stop = {});

 private:
  std::string directory_;
  const BaseModel& base_;
  CausalLm& model_;
  DType dtype_;
  ModelParts parts_;
};

/// Overwrites trained parameters from the tensors of a model directory.
void load_model_values(CausalLm& model, const std::string& directory);
/// Loads only the parts of parameters that this rank holds.
void load_shard_values(const CausalLm& model, const std::string& directory, std::span<Shard> shards);

}  // namespace dml
