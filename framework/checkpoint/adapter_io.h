// Adapter folders: PEFT's (adapter_config.json + adapter_model.safetensors) and mlx-lm's (adapter_config.json +
// adapters.safetensors), read and written. What is read is checked whole against the model before any of it is used.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors_dtype.h"
#include "core/json.h"
#include "model/adapter_plan.h"

namespace dml {

/// PEFT's adapter_config.json as an object. Unknown keys that change the mathematics are refused by name.
/// `model_type` chooses the targets when target_modules is null; empty: they stay empty.
AdapterConfig read_adapter_config(const Json& json, const std::string& source, const std::string& model_type = "");
/// The text of adapter_config.json, byte for byte as PEFT lays it out: sorted keys, indent 2, no final newline.
std::string adapter_config_text(const AdapterConfig& config);

/// An adapter in memory: a few megabytes, as float32 in PEFT's layout whatever the file held.
struct Adapter {
  AdapterConfig config;
  AdapterPlan plan;
  std::vector<AdapterTensor> tensors;                // what the file holds of adapter_tensors(config, …)
  std::map<std::string, std::vector<float>> values;  // by key
};

/// Reads a folder of either kind, against the model it is for. `base_model` (a path or name; may be empty) is compared
/// with the one the adapter was made for: a difference is a warning, a difference in shapes a UserError that lists them
/// all.
Adapter read_adapter(const std::string& directory, const ModelSpec& spec, const std::string& base_model = "");

/// Just the config, of either kind of folder.
AdapterConfig read_adapter_config_of(const std::string& directory, const std::string& model_type = "");

/// The rows that an adapter's file gives embedding or head, where they are more than those of `spec`; else spec.vocab.
/// The adapter of a vocabulary that was resized holds them all. `directory` may be no folder of PEFT's.
std::int64_t vocabulary_of(const std::string& directory, const ModelSpec& spec);

/// Where writing takes values from: the tensor's float32 values in PEFT's layout.
using AdapterValues = std::function<std::span<const float>(const AdapterTensor&)>;

/// Values of the base as it is stored: what the tensor's shape says of `dtype`.
struct StoredValues {
  DType dtype = DType::f32;
  const void* data = nullptr;
};
using BaseValues = std::function<StoredValues(const AdapterTensor&)>;

/// Writes adapter_config.json, adapter_model.safetensors and README.md into an existing folder. Tensors of Kind::base
/// are those of `base`, in the type they have; without it, of `values`. Others are rounded to `dtype`.
void write_adapter(const std::string& directory, const AdapterConfig& config, const std::vector<AdapterTensor>& tensors,
                   const AdapterValues& values, const BaseValues& base = {}, DType dtype = DType::f32);

/// The model card: front matter for the Hub, then a few lines for people.
std::string adapter_card(const AdapterConfig& config);

}  // namespace dml
