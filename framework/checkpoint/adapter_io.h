// Reads and writes adapter folders: PEFT's (adapter_config.json + adapter_model.safetensors) and mlx-lm's
// (adapter_config.json + adapters.safetensors). A folder is checked against the model as a whole before any of it is
// used.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/json.h"
#include "model/adapter_plan.h"

namespace dml {

/// Parses PEFT's adapter_config.json. UserError naming unknown keys that change the mathematics. `model_type`
/// determines the targets if target_modules is null; "": they stay empty.
AdapterConfig read_adapter_config(const Json& json, const std::string& source, const std::string& model_type = "");
/// The text of adapter_config.json, byte for byte as PEFT writes it: sorted keys, indent 2, no final newline.
std::string adapter_config_text(const AdapterConfig& config);

/// An adapter in memory, as float32 in PEFT's layout whatever the dtype of the file.
struct Adapter {
  AdapterConfig config;
  AdapterPlan plan;
  std::vector<AdapterTensor> tensors;                // the tensors of adapter_tensors(config, …) that are in the file
  std::map<std::string, std::vector<float>> values;  // by key
};

/// Reads a folder of either kind and checks it against the model's spec: a UserError lists all tensors of other shapes.
/// A `base_model` (path or name; may be empty) other than the one the adapter was trained on is a warning.
Adapter read_adapter(const std::string& directory, const ModelSpec& spec, const std::string& base_model = "");

/// The base model that the config names: a path, or a model of the Hub with "@REVISION" unless the revision is main.
std::string base_of(const AdapterConfig& config);

/// Whether this is a folder with adapter_config.json. UserError for a folder that may not be entered.
bool holds_adapter(const std::string& path);

/// Reads only the config, of either kind of folder.
AdapterConfig read_adapter_config_of(const std::string& directory, const std::string& model_type = "");

/// The number of rows of embedding or head in an adapter's file if it exceeds spec.vocab, as after resizing the
/// vocabulary; else spec.vocab. `directory` need not be a PEFT folder.
std::int64_t vocabulary_of(const std::string& directory, const ModelSpec& spec);

/// Supplies a tensor's values to write_adapter(): float32 in PEFT's layout.
using AdapterValues = std::function<std::span<const float>(const AdapterTensor&)>;

/// A tensor of the base in its stored dtype; the number of elements is that of the tensor's shape.
struct StoredValues {
  DType dtype = DType::f32;
  const void* data = nullptr;
};
using BaseValues = std::function<StoredValues(const AdapterTensor&)>;

/// Writes adapter_config.json, adapter_model.safetensors and README.md into an existing folder. Tensors of Kind::base
/// are taken from `base` in their dtype, or from `values` if it is empty. All others are rounded to `dtype`.
void write_adapter(const std::string& directory, const AdapterConfig& config, const std::vector<AdapterTensor>& tensors,
                   const AdapterValues& values, const BaseValues& base = {}, DType dtype = DType::f32);

/// The model card: front matter for the Hub, then a short description.
std::string adapter_card(const AdapterConfig& config);

/// A matrix of `rows` rows, transposed.
std::vector<float> transposed(std::span<const float> x, std::int64_t rows, std::int64_t cols);

}  // namespace dml
