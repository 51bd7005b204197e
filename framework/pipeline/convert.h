// dml convert: writes a model or adapter in another form. Models: another dtype, other shards, an own head or one tied
// to the embedding, or one GGUF file. Adapters: the layout of PEFT, mlx-lm or llama.cpp. The output is written
// atomically.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace dml {

struct Conversion {
  std::string input, output;
  std::optional<std::string> format{};      // of an adapter: peft, mlx, gguf; of a model: gguf, safetensors (unset)
  std::optional<std::string> base_model{};  // of an adapter: its base's directory; unset: the one it names
  std::optional<std::string> dtype{};       // of a model: f32, f16, bf16, for gguf one of its types; unset: unchanged
  std::optional<std::size_t> max_shard_bytes{};
  std::optional<bool> tied{};  // of a model; unset: unchanged
};

/// UserError for options that contradict each other; `output` must not exist as a file or a non-empty directory.
void convert(const Conversion& conversion);

/// The values of Conversion::dtype; the first three are those of a model directory.
std::vector<std::string> stored_types();

/// "5GB", "500MB", "1000000" (powers of 1000, as Hugging Face counts).
std::size_t parse_size(const std::string& text, const std::string& option);

}  // namespace dml
