#include "exchange/gguf_families.h"

#include <cmath>

#include "core/error.h"

namespace dml {

using kernels::Activation;
using F = GgufFamily;

bool GgufFamily::slides(const ModelSpec& spec, std::int64_t layer) const {
  if (full_window == 0 || spec.layers < windowed_from) return false;
  return window_first ? layer % full_window == 0 : (layer + 1) % full_window != 0;
}

bool GgufFamily::turns(const ModelSpec& spec, std::int64_t layer) const {
  return full_rope == 0 || spec.layers < windowed_from || (layer + 1) % full_rope != 0;
}

double GgufFamily::score_scale(const ModelSpec& s) const {
  // llama.cpp recognizes Gemma's 27B models by their number of layers.
  const bool by_width = (model_type == "gemma2" && s.layers == 46) || (model_type == "gemma3_text" && s.layers == 62);
  const std::int64_t width = by_width ? s.hidden / s.heads : s.latent ? s.latent.nope + s.latent.rope : s.head_dim;
  return 1 / std::sqrt(static_cast<double>(width));
}

namespace {

constexpr unsigned kAll = F::qkv | F::out | F::mlp;
constexpr F kFamilies[] = {
    {.model_type = "llama", .architecture = "llama", .paired_rope = true, .biases = kAll, .extras = F::llama3_rope},
    {.model_type = "mistral", .architecture = "llama", .paired_rope = true, .extras = F::llama3_rope},
    {.model_type = "ministral", .architecture = "llama", .paired_rope = true},
    {.model_type = "mixtral", .architecture = "llama", .paired_rope = true, .extras = F::experts | F::normalized},
    {.model_type = "qwen2", .architecture = "qwen2", .biases = F::qkv},
    {.model_type = "qwen3", .architecture = "qwen3"},
    {.model_type = "qwen2_moe", .architecture = "qwen2moe", .biases = F::qkv, .extras = F::experts | F::own_head},
    {.model_type = "qwen3_moe", .architecture = "qwen3moe", .extras = F::experts | F::normalized},
    {.model_type = "gemma", .architecture = "gemma", .activation = Activation::gelu_tanh},
    {.model_type = "gemma2",
     .architecture = "gemma2",
     .activation = Activation::gelu_tanh,
     .full_window = 2,
     .window_first = 1},
    {.model_type = "gemma3_text", .architecture = "gemma3", .activation = Activation::gelu_tanh, .full_window = 6},
    {.model_type = "phi",
     .architecture = "phi2",
     .activation = Activation::gelu_tanh,
     .biases = kAll | F::head,
     .extras = F::partial_rope | F::own_head},
    {.model_type = "phi3", .architecture = "phi3", .extras = F::longrope | F::partial_rope},
    {.model_type = "stablelm",
     .architecture = "stablelm",
     .biases = F::qkv,
     .extras = F::partial_rope | F::parallel_key},
    {.model_type = "olmo2", .architecture = "olmo2", .extras = F::own_head},
    {.model_type = "olmo3", .architecture = "olmo2", .full_window = 4, .extras = F::own_head},
    {.model_type = "olmoe", .architecture = "olmoe", .extras = F::experts | F::own_head},
    {.model_type = "exaone4",
     .architecture = "exaone4",
     .full_window = 4,
     .windowed_from = 64,
     .full_rope = 4,
     .extras = F::llama3_rope},
    {.model_type = "seed_oss", .architecture = "seed_oss", .biases = F::qkv, .extras = F::late_ffn_norm},
    {.model_type = "apertus",
     .architecture = "apertus",
     .activation = Activation::xielu,
     .biases = F::qkv | F::out,
     .extras = F::llama3_rope | F::own_head},
    {.model_type = "gpt2", .architecture = "gpt2", .activation = Activation::gelu_tanh, .biases = kAll},
    {.model_type = "gpt_neox",
     .architecture = "gptneox",
     .activation = Activation::gelu,
     .biases = kAll,
     .needs = kAll,
     .extras = F::partial_rope | F::own_head | F::parallel_key},
    {.model_type = "falcon", .architecture = "falcon", .activation = Activation::gelu, .extras = F::parallel_only},
    {.model_type = "bloom", .architecture = "bloom", .activation = Activation::gelu_tanh, .biases = kAll},
    {.model_type = "mpt", .architecture = "mpt", .activation = Activation::gelu},
    {.model_type = "granite", .architecture = "granite", .paired_rope = true, .biases = kAll, .extras = F::scales},
    {.model_type = "granitemoe",
     .architecture = "granitemoe",
     .paired_rope = true,
     .extras = F::scales | F::experts | F::normalized},
    {.model_type = "cohere", .architecture = "command-r", .extras = F::logit_scale},
    {.model_type = "cohere2", .architecture = "cohere2", .full_window = 4, .full_rope = 4, .extras = F::logit_scale},
    {.model_type = "nemotron",
     .architecture = "nemotron",
     .activation = Activation::relu2,
     .biases = kAll,
     .extras = F::partial_rope},
    {.model_type = "starcoder2",
     .architecture = "starcoder2",
     .activation = Activation::gelu_tanh,
     .biases = kAll,
     .needs = F::out | F::mlp},
    {.model_type = "glm4", .architecture = "glm4", .biases = F::qkv, .extras = F::partial_rope},
    {.model_type = "smollm3", .architecture = "smollm3", .paired_rope = true, .full_rope = 4},
    {.model_type = "arcee",
     .architecture = "arcee",
     .paired_rope = true,
     .activation = Activation::relu2,
     .extras = F::llama3_rope},
    {.model_type = "ernie4_5", .architecture = "ernie4_5", .biases = F::out},
    {.model_type = "hunyuan_v1_dense", .architecture = "hunyuan-dense"},
    {.model_type = "gpt_oss",
     .architecture = "gpt-oss",
     .activation = Activation::clamped_silu,
     .biases = F::qkv | F::out,
     .needs = F::qkv | F::out,
     .full_window = 2,
     .extras = F::experts | F::normalized | F::late_ffn_norm | F::own_head},
    {.model_type = "deepseek_v3",
     .architecture = "deepseek2",
     .extras = F::partial_rope | F::experts | F::leading_dense | F::own_head},
};

}  // namespace

std::span<const GgufFamily> gguf_families() { return kFamilies; }

const GgufFamily& gguf_family(std::string_view model_type, const std::string& source) {
  std::vector<std::string> names;
  for (const GgufFamily& f : gguf_families()) {
    if (f.model_type == model_type) return f;
    names.emplace_back(f.model_type);
  }
  throw UserError("{}: GGUF: family '{}' cannot be written for llama.cpp; known are {}", source, model_type,
                  fmt::join(names, ", "));
}

}  // namespace dml
