// From a recipe's model and adapter sections to a CausalLm: opens the base directory (or takes the architecture from
// the recipe), lays the adapter over it, decides what is trained.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "checkpoint/adapter_io.h"
#include "checkpoint/model_files.h"
#include "checkpoint/quantised.h"
#include "core/json.h"
#include "dist/comm.h"
#include "model/build.h"
#include "recipe/recipe.h"

namespace dml {

/// A tensor with more rows than its file has.
struct GrownTensor {
  std::vector<std::int64_t> shape;
  DType dtype = DType::f32;
  std::vector<std::byte> bytes;
};

/// Tensors in another type than the file's, by name and type; alive as long as a model uses one of them.
struct ConvertedTensors;

/// A base model as its files describe it; without files for training from scratch.
struct BaseModel {
  ModelSpec spec;
  Json config;                                                      // config.json, or the recipe's model_config
  std::string directory;                                            // "" from scratch
  std::shared_ptr<const ModelFiles> files;                          // null from scratch
  std::shared_ptr<const QuantisedBase> quantised;                   // with load_in_4bit or load_in_8bit
  std::shared_ptr<const std::map<std::string, GrownTensor>> grown;  // instead of the files' (assembly/vocabulary.h)

  mutable std::weak_ptr<ConvertedTensors> converted;  // those that models use now

  /// Tensors by name, mapped; quantised ones first, but those of `whole`, which are trained; other matrices converted
  /// when `storage` asks for another type than the file's, once for all models. Views live as long as the source.
  TensorSource source(std::optional<DType> storage, const std::set<std::string>& whole = {}) const;
  /// Bytes of all tensors as source(automatic) gives them.
  std::size_t bytes() const;
  /// Reads every byte of all tensors once: UserError for a value that is NaN or infinite (a quantised base was looked
  /// through when it was made); returns the digest of config, names and bytes. A collective: ranks that see the very
  /// same files share the reading.
  std::string examine(Comm& comm) const;
  /// Drops the pages read so far from resident memory; they are read again on access.
  void release() const;
  /// The element type most matrices have: "F32", "BF16" or "F16".
  DType dtype() const;
};

/// Config and headers, checked against each other: milliseconds, whatever the size.
BaseModel open_base_files(const ModelSection& section);
/// UserError when its weights are quantised on disk and the recipe does not use them so.
void check_stored_base(const BaseModel& base, const ModelSection& section, const AdapterSection& adapter);
/// With load_in_4bit or load_in_8bit the base is quantised, unless that has been done before.
void quantise_base(BaseModel& base, const ModelSection& section, const AdapterSection& adapter);
/// Both.
BaseModel open_base_model(const ModelSection& section, const AdapterSection& adapter = {});

/// Whether it has more rows of the vocabulary than its files.
bool vocabulary_is_resized(const BaseModel& base);

/// The adapter that the recipe describes (adapter: lora or qlora).
AdapterConfig adapter_config(const AdapterSection& section, const std::string& base_model);

/// A model on this base; it keeps the mapped files and what was converted.
std::unique_ptr<CausalLm> build_on(const BaseModel& base, std::optional<DType> storage, const Training& training,
                                   const std::string& name);

/// The changes of a training run to the base.
Training training_of(const AdapterSection& section, const std::string& base_model, std::int64_t seed);

/// How a run asks for the base's matrices: ReLoRA copies those that it changes by itself (assembly/relora.h).
std::optional<DType> source_storage(const ModelSection& model, const AdapterSection& adapter);

struct TrainableModel {
  std::unique_ptr<CausalLm> model;
  std::optional<AdapterConfig> adapter;  // what it is written with
};
/// Built and, with lora_model_dir, started from that adapter.
/// `values`: of full training.
TrainableModel make_trainable_model(const BaseModel& base, const ModelSection& model, const AdapterSection& adapter,
                                    std::int64_t seed, const TrainedValues& values = {});
/// For inference: the base alone or with adapters over it, each "DIR" or "DIR=WEIGHT" (checkpoint/adapter_sum.h).
std::unique_ptr<CausalLm> make_inference_model(const BaseModel& base, std::optional<DType> storage,
                                               const std::vector<std::string>& adapters = {});
/// Like make_inference_model() for an adapter whose base `host` computes already. `number`: the adapter's
/// SequenceRows::adapter in the host (CausalLm::adopt); unset where the adapter needs a model of its own.
std::unique_ptr<CausalLm> make_inference_model(const BaseModel& base, std::optional<DType> storage,
                                               const std::vector<std::string>& adapters, CausalLm& host,
                                               std::optional<std::int32_t>& number);
/// Double quantised scales of NF4 become float32: decoding multiplies by every one of them for every token.
void expand_scales(CausalLm& model);

/// Bytes of base weights that are not trained: used from mapped files, or held in memory of the model's own.
struct FrozenMemory {
  std::size_t mapped = 0, copied = 0;
};
FrozenMemory frozen_memory(const BaseModel& base, const CausalLm& model, std::optional<DType> storage);

/// Values of an adapter into the parameters of a model that was built with its config.
void load_adapter(CausalLm& model, const Adapter& adapter, const std::string& directory);

}  // namespace dml
