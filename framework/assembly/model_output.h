// Writing what was trained: PEFT adapter directories, Hugging Face model directories, and their parts of checkpoints.
#pragma once

#include <span>
#include <stop_token>
#include <string>

#include "assembly/base_model.h"
#include "checkpoint/model_parts.h"
#include "core/files.h"
#include "dist/strategy.h"
#include "model/causal_lm.h"

namespace dml {

/// adapter_config.json and adapter_model.safetensors, from the units' current values, or from `copies` of them.
void write_adapter_directory(const std::string& directory, const AdapterConfig& config, const CausalLm& model,
                             std::span<const std::span<float>> copies = {}, DType dtype = DType::f32);

/// The spec of the model with its adapters merged: several that were added up may have parted a tied head from its
/// embedding. UserError where a layer has no bias for that of its adapter to be merged into.
ModelSpec merged_spec(CausalLm& model);

/// config.json and safetensors (sharded when large), tensor by tensor: at most one is in memory.
/// With `merge` adapters are merged. Tensors of the base that the model does not know are copied. `show(unit)` is
/// called before values of a unit are read.
void write_model_directory(const std::string& directory, const BaseModel& base, CausalLm& model, DType dtype,
                           bool merge, const DistributionStrategy::Show& show = {});

/// Writes the same files, bit for bit, from shards or copies of them: each rank writes its own shards, on a file system
/// that all ranks share. All arguments must outlive this object.
class ModelInParts {
 public:
  /// Not where tensors are stored the other way round, frozen, or trained in part.
  static bool possible(const CausalLm& model);

  ModelInParts(std::string directory, const BaseModel& base, const CausalLm& model, DType dtype);
  /// One rank, before any of them writes.
  void create() { parts_.create(); }
  /// To the disk. `rest`: what is in no shard, too; on one rank. Where it is stopped the files stay unfinished.
  void write(std::span<const Shard> shards, bool rest, const std::stop_token& stop = {});

 private:
  std::string directory_;
  const BaseModel& base_;
  const CausalLm& model_;
  DType dtype_;
  ModelParts parts_;
};

/// Overwrites trained parameters from the tensors of a model directory.
void load_model_values(CausalLm& model, const std::string& directory);
/// Loads only the parts of parameters that this rank holds.
void load_shard_values(const CausalLm& model, const std::string& directory, std::span<Shard> shards);

/// Moves the files of a finished temporary folder into `directory`, one rename each, replacing what is there.
class FilesInto {
 public:
  explicit FilesInto(std::string directory);
  ~FilesInto();
  FilesInto(const FilesInto&) = delete;
  FilesInto& operator=(const FilesInto&) = delete;
  const std::string& path() const { return temporary_; }
  void commit();

 private:
  std::string directory_, temporary_;
};

}  // namespace dml
