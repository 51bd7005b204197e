// Builds a CausalLm from a recipe's model and adapter sections: opens the base directory (or takes the architecture
// from the recipe), adds the adapter, selects the trained parameters.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "checkpoint/adapter_io.h"
#include "checkpoint/model_files.h"
#include "checkpoint/quantized.h"
#include "core/json.h"
#include "dist/comm.h"
#include "model/build.h"
#include "recipe/recipe.h"

namespace dml {

/// A tensor that was resized: it has more rows than in its file.
struct ResizedTensor {
  std::vector<std::int64_t> shape;
  DType dtype = DType::f32;
  std::vector<std::byte> bytes;
};

/// Tensors that were converted to another dtype, by name and dtype; alive as long as a model uses one of them.
struct ConvertedTensors;

/// A base model as its files describe it; it has no files when training from scratch.
struct BaseModel {
  ModelSpec spec;
  Json config;                                     // config.json, or the recipe's model_config
  std::string directory;                           // "" when training from scratch
  std::shared_ptr<const ModelFiles> files;         // null when training from scratch
  std::shared_ptr<const QuantizedBase> quantized;  // with load_in_4bit or load_in_8bit
  std::shared_ptr<const std::map<std::string, ResizedTensor>>
      resized;  // replace tensors of the files (assembly/vocabulary.h)

  mutable std::weak_ptr<ConvertedTensors> converted;  // conversions that some model uses now

  /// Looks up tensors by name: mapped from the files; quantized where there is a quantized tensor; other matrices
  /// converted, once for all models, if `storage` is not their dtype. Tensors in `whole` are trained: they are neither
  /// quantized nor converted. Views are valid as long as the source.
  TensorSource source(std::optional<DType> storage, const std::set<std::string>& whole = {}) const;
  /// Bytes of all tensors in the dtypes of their files.
  std::size_t bytes() const;
  /// Reads every byte of all tensors once. UserError for a NaN or infinite value (a quantized base was checked when it
  /// was made). Returns the digest of config, names and bytes. A collective: ranks that share the files share the
  /// reading.
  std::string examine(Comm& comm) const;
  /// Drops the pages read so far from resident memory; an access reads them again.
  void release() const;
  /// The element type of most matrices: f32, bf16 or f16.
  DType dtype() const;
};

/// Reads config and tensor headers and checks them against each other; takes milliseconds for any size.
BaseModel open_base_files(const ModelSection& section);
/// UserError when the weights are quantized on disk and the recipe does not allow for it.
void check_stored_base(const BaseModel& base, const ModelSection& section, const AdapterSection& adapter);
/// With load_in_4bit or load_in_8bit, quantizes the base, or maps the result of an earlier run.
void quantize_base(BaseModel& base, const ModelSection& section, const AdapterSection& adapter);
/// open_base_files(), check_stored_base() and quantize_base().
BaseModel open_base_model(const ModelSection& section, const AdapterSection& adapter = {});

/// Whether the vocabulary has more rows than in the files.
bool vocabulary_is_resized(const BaseModel& base);

/// The adapter that the recipe describes (adapter: lora or qlora).
AdapterConfig adapter_config(const AdapterSection& section, const std::string& base_model);

/// Builds a model on this base. It keeps the mapped files and converted tensors alive.
std::unique_ptr<CausalLm> build_on(const BaseModel& base, std::optional<DType> storage, const Training& training,
                                   const std::string& name);

/// What a training run adds to the base and trains, as CausalLm takes it.
Training training_of(const AdapterSection& section, const std::string& base_model, std::int64_t seed);

/// The `storage` for source() of a run's base. ReLoRA itself copies the matrices that it changes (assembly/relora.h).
std::optional<DType> source_storage(const ModelSection& model, const AdapterSection& adapter);

struct TrainableModel {
  std::unique_ptr<CausalLm> model;
  std::optional<AdapterConfig> adapter;  // the config it is saved with
};
/// Builds the model of a run; with lora_model_dir, loads that adapter. `values`: how trained values are held in full
/// fine-tuning.
TrainableModel make_trainable_model(const BaseModel& base, const ModelSection& model, const AdapterSection& adapter,
                                    std::int64_t seed, const TrainedValues& values = {});
/// The base alone, or with adapters, each "DIR" or "DIR=WEIGHT" (checkpoint/adapter_sum.h); for inference.
std::unique_ptr<CausalLm> make_inference_model(const BaseModel& base, std::optional<DType> storage,
                                               const std::vector<std::string>& adapters = {});
/// Whether the model that a run starts from computes what its base does: not with lora_model_dir, and not with initial
/// values of an adapter that change the base or have B ≠ 0.
bool starts_as_base(const AdapterSection& adapter);
/// The model that a run starts from, for evaluation. `values`: as for make_trainable_model(), since a run that holds
/// values in bfloat16 starts from rounded ones.
std::unique_ptr<CausalLm> make_start_model(const BaseModel& base, const ModelSection& model,
                                           const AdapterSection& adapter, std::int64_t seed,
                                           const TrainedValues& values = {});
/// Like make_inference_model(), for an adapter whose base `host` already computes. `number`: its SequenceRows::adapter
/// in the host (CausalLm::attach_adapter); unset if the adapter needs a model of its own.
std::unique_ptr<CausalLm> make_inference_model(const BaseModel& base, std::optional<DType> storage,
                                               const std::vector<std::string>& adapters, CausalLm& host,
                                               std::optional<std::int32_t>& number);
/// Expands double-quantized NF4 scales to float32, since decoding reads all of them for every token.
void expand_scales(CausalLm& model);

/// Bytes of frozen base weights: used from mapped files, or copied into memory of the model.
struct FrozenMemory {
  std::size_t mapped = 0, copied = 0;
};
FrozenMemory frozen_memory(const BaseModel& base, const CausalLm& model, std::optional<DType> storage);

/// Copies an adapter's values into the parameters of a model that was built with its config.
void load_adapter(CausalLm& model, const Adapter& adapter, const std::string& directory);

}  // namespace dml
