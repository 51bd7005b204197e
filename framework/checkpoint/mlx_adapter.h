// Adapters of mlx-lm: "adapters.safetensors" with `lora_a` (in, r), `lora_b` (r, out) and, for DoRA, `m` (out), applied
// as y += scale · (x a) b. In PEFT's terms: A = aᵀ, B = bᵀ, alpha = scale · r.
#pragma once

#include <string>

#include "checkpoint/adapter_io.h"

namespace dml {

class SafetensorsFile;

/// Converts the config to PEFT's terms. If mlx-lm's config does not list the adapted modules, they are taken from
/// `weights`, which may be null.
AdapterConfig read_mlx_config(const Json& json, const std::string& source, const SafetensorsFile* weights);
Adapter read_mlx_adapter(const std::string& directory, const Json& json, const ModelSpec& spec);

/// Writes adapters.safetensors and adapter_config.json. UserError for what the format does not support: ranks or scales
/// that differ between modules, modules_to_save, embeddings outside the blocks.
void write_mlx_adapter(const std::string& directory, const AdapterConfig& config, const ModelSpec& spec,
                       const AdapterValues& values);

}  // namespace dml
