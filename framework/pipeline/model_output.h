// Writing what was trained: PEFT adapter directories, Hugging Face model directories, and their parts of checkpoints.
#pragma once

#include <string>

#include "core/files.h"
#include "dist/strategy.h"
#include "model/causal_lm.h"
#include "pipeline/base_model.h"

namespace dml {

/// adapter_config.json, adapter_model.safetensors and a model card, from the parameters' current values.
void write_adapter_directory(const std::string& directory, const AdapterConfig& config, const CausalLm& model);

/// config.json, generation_config.json and safetensors (sharded when large), tensor by tensor: at most one is in memory.
/// With `merge` adapters are merged. Tensors of the base that the model does not know are copied. `show(unit)` is called
/// before values of a unit are read.
void write_model_directory(const std::string& directory, const BaseModel& base, CausalLm& model, Dtype dtype,
                           bool merge, const DistributionStrategy::Show& show = {});

/// The same files, bit for bit, where ranks hold slices of the values: each writes its own into them, on a file system that
/// all of them see. A collective of all ranks.
void write_model_in_parts(const std::string& directory, const BaseModel& base, const CausalLm& model, Dtype dtype,
                          DistributionStrategy& strategy, Comm& comm);
/// Whether that can be done: not where tensors are stored the other way round, frozen, or trained in part. A collective.
bool writes_in_parts(const CausalLm& model, const DistributionStrategy& strategy);

/// Overwrites trained parameters from the tensors of a model directory.
void load_model_values(CausalLm& model, const std::string& directory);
/// The same for the parts of parameters that a rank holds: nothing else is read.
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
