// The keys of a GGUF file → config.json: the inverse of gguf_families.cpp.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "checkpoint/model_config.h"
#include "core/error.h"
#include "exchange/gguf_families.h"
#include "exchange/gguf_model.h"
#include "exchange/gguf_tensors.h"

namespace dml {
namespace {

class ConfigOf {
 public:
  explicit ConfigOf(const GgufFile& file) : file_(file), arch_(file.text("general.architecture")), family_(find()) {}

  Json read() {
    model_ = std::string(family_.model_type);
    sizes();
    ids();
    if (model_ == "gpt2") gpt2();
    else rotary_model();
    const std::int64_t type = file_.integer("general.file_type", 0);
    j_["torch_dtype"] = type == 32 ? "bfloat16" : type == 0 ? "float32" : "float16";
    return std::move(j_);
  }

 private:
  const GgufFamily& find() const {
    std::vector<std::string> names;
    for (const GgufFamily& f : gguf_families()) {
      if (f.architecture == arch_) return f;
      names.emplace_back(f.architecture);
    }
    throw UserError("{}: architecture '{}' is not supported; known are {}", file_.path(), arch_, fmt::join(names, ", "));
  }
  std::string key(std::string_view name) const { return fmt::format("{}.{}", arch_, name); }
  std::int64_t whole(std::string_view name) const { return file_.integer(key(name)); }
  std::int64_t whole(std::string_view name, std::int64_t fallback) const { return file_.integer(key(name), fallback); }
  double real(std::string_view name, double fallback) const { return shortest(file_.number(key(name), fallback)); }
  // The file has float32; config.json the decimal number that it was made from.
  static double shortest(double x) { return std::strtod(fmt::format("{}", static_cast<float>(x)).c_str(), nullptr); }
  bool has(std::string_view tensor) const { return file_.find(tensor) != nullptr; }
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    throw UserError("{}: {}", file_.path(), fmt::format(text, std::forward<Args>(args)...));
  }

  void sizes() {
    for (auto& f : families())
      if (f.model_type == model_) j_["architectures"] = Json::array({f.architecture});
    j_["model_type"] = model_;
    const GgufTensorView* table = file_.find("token_embd.weight");
    if (!table || table->shape.size() != 2) refuse("tensor 'token_embd.weight' is missing, or no matrix");
    j_["vocab_size"] = table->shape[0];
    j_["tie_word_embeddings"] = !has("output.weight");
    hidden_ = whole("embedding_length"), heads_ = whole("attention.head_count");
    if (hidden_ < 1 || heads_ < 1) refuse("embedding_length {} and head_count {} must be above 0", hidden_, heads_);
    head_dim_ = whole("attention.key_length", hidden_ / heads_);
    if (whole("attention.value_length", head_dim_) != head_dim_) refuse("keys and values of different lengths are not supported");
  }

  void ids() {
    auto id = [&](const char* name) {
      const std::string k = std::string("tokenizer.ggml.") + name;
      return file_.metadata().find(k) ? Json(file_.integer(k)) : Json(nullptr);
    };
    j_["bos_token_id"] = id("bos_token_id");
    Json ends = Json::array();
    for (const char* name : {"eos_token_id", "eot_token_id", "eom_token_id"})
      if (const Json end = id(name); !end.is_null() && std::ranges::find(ends, end) == ends.end()) ends.push_back(end);
    j_["eos_token_id"] = ends.empty() ? Json(nullptr) : ends.size() == 1 ? ends[0] : ends;
    j_["pad_token_id"] = id("padding_token_id");
  }

  void gpt2() {
    j_["n_embd"] = hidden_;
    j_["n_inner"] = whole("feed_forward_length");
    j_["n_layer"] = whole("block_count");
    j_["n_head"] = heads_;
    j_["n_positions"] = whole("context_length");
    j_["layer_norm_epsilon"] = real("attention.layer_norm_epsilon", 1e-5);
    j_["activation_function"] = "gelu_new";
  }

  void rotary_model() {
    const std::int64_t layers = whole("block_count");
    j_["hidden_size"] = hidden_;
    j_["intermediate_size"] = whole("feed_forward_length");
    j_["num_hidden_layers"] = layers;
    j_["num_attention_heads"] = heads_;
    j_["num_key_value_heads"] = whole("attention.head_count_kv", heads_);
    j_["head_dim"] = head_dim_;
    j_["max_position_embeddings"] = whole("context_length");
    const bool rms = std::string_view(family_.epsilon) == "rms_norm_eps";
    j_[family_.epsilon] =
        shortest(file_.number(key(rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon")));
    j_["hidden_act"] = family_.activation == kernels::Activation::gelu_tanh ? "gelu_pytorch_tanh"
                       : family_.activation == kernels::Activation::relu2   ? "relu2"
                                                                            : "silu";
    if (model_.starts_with("gemma")) j_["hidden_activation"] = j_["hidden_act"];
    biases_and_scales();
    if (model_ == "stablelm") {
      j_["use_qkv_bias"] = has("blk.0.attn_q.bias");
      j_["qk_layernorm"] = has("blk.0.attn_q_norm.weight");
      j_["use_parallel_residual"] = file_.truth(key("use_parallel_residual"), true);
    }
    if (const auto window = whole("attention.sliding_window", 0); model_ == "phi3" && window > 0) j_["sliding_window"] = window;
    if (model_ == "gemma2" || model_ == "gemma3_text") gemma_scores(layers);
    rope();
  }

  void biases_and_scales() {
    const bool qkv = has("blk.0.attn_q.bias"), out = has("blk.0.attn_output.bias"), mlp = has("blk.0.ffn_up.bias");
    if (model_ == "starcoder2" || model_ == "ernie4_5") {
      j_["use_bias"] = out;
    } else if (model_ != "qwen2" && model_ != "phi3" && model_ != "stablelm") {
      j_["attention_bias"] = qkv;
      j_["mlp_bias"] = mlp;
    }
    if (family_.extras & GgufFamily::scales) {
      j_["embedding_multiplier"] = real("embedding_scale", 1);
      j_["attention_multiplier"] = real("attention.scale", 1 / std::sqrt(static_cast<double>(head_dim_)));
      j_["residual_multiplier"] = real("residual_scale", 1);
      j_["logits_scaling"] = real("logit_scale", 1);
    } else if (family_.extras & GgufFamily::logit_scale) {
      j_["logit_scale"] = real("logit_scale", 1);
      j_["use_qk_norm"] = has("blk.0.attn_q_norm.weight");
    }
    if (model_ == "cohere2") j_["sliding_window"] = whole("attention.sliding_window"), j_["sliding_window_pattern"] = 4;
  }

  void gemma_scores(std::int64_t layers) {
    const bool by_width = layers == (model_ == "gemma2" ? 46 : 62);  // as llama.cpp tells the 27B models
    j_["query_pre_attn_scalar"] = by_width ? hidden_ / heads_ : head_dim_;
    if (model_ == "gemma2") {
      j_["attn_logit_softcapping"] = real("attn_logit_softcapping", 50);
      j_["final_logit_softcapping"] = real("final_logit_softcapping", 30);
      j_["sliding_window"] = whole("attention.sliding_window", 4096);
    } else {
      const double cap = real("final_logit_softcapping", 0);
      j_["final_logit_softcapping"] = cap > 0 ? Json(cap) : Json(nullptr);
      j_["sliding_window"] = whole("attention.sliding_window");
      j_["sliding_window_pattern"] = 6;
      j_["rope_local_base_freq"] = 10000.0;
    }
  }

  void rope() {
    j_["rope_theta"] = real("rope.freq_base", 10000);
    const std::int64_t turned = whole("rope.dimension_count", head_dim_);
    if ((family_.extras & GgufFamily::partial_rope) || turned != head_dim_)
      j_["partial_rotary_factor"] = static_cast<double>(turned) / static_cast<double>(head_dim_);
    const std::string kind = file_.text(key("rope.scaling.type"), "none");
    Json scaling = nullptr;
    if (kind == "linear" || kind == "yarn") {
      scaling = {{"rope_type", kind}, {"factor", real("rope.scaling.factor", 1)}};
      if (kind == "yarn") {
        scaling["original_max_position_embeddings"] = whole("rope.scaling.original_context_length");
        scaling["beta_fast"] = real("rope.scaling.yarn_beta_fast", 32);
        scaling["beta_slow"] = real("rope.scaling.yarn_beta_slow", 1);
      }
    } else if (kind != "none" && kind != "longrope") {
      refuse("rope scaling '{}' is not supported", kind);
    }
    if (has("rope_freqs.weight")) scaling = llama3();
    if (has("rope_factors_long.weight")) {
      const std::int64_t original = whole("rope.scaling.original_context_length");
      scaling = {{"rope_type", "longrope"}, {"long_factor", floats("rope_factors_long.weight")},
                 {"short_factor", floats("rope_factors_short.weight")}, {"original_max_position_embeddings", original},
                 {"attention_factor", real("rope.scaling.attn_factor", 1)}};
      j_["original_max_position_embeddings"] = original;
    }
    j_["rope_scaling"] = scaling;
  }

  std::vector<double> floats(const char* name) const {
    const GgufTensorView* t = file_.find(name);
    if (!t || t->type->storage != kernels::Storage::f32 || t->shape.size() != 1) refuse("tensor '{}' must be a list of f32", name);
    std::vector<float> x(static_cast<std::size_t>(t->elements()));
    kernels::unpack({kernels::Storage::f32, 1, t->elements(), t->data.data()}, 0, 1, 0, t->elements(), x.data());
    return {x.begin(), x.end()};
  }

  // The file has the factors; Hugging Face has what they were computed from. All published models have the frequencies 1 and 4.
  Json llama3() const {
    const std::vector<double> given = floats("rope_freqs.weight");
    ModelSpec spec;
    spec.head_dim = head_dim_;
    spec.rope.theta = real("rope.freq_base", 10000);
    spec.rope.scaling = RopeScaling::llama3;
    spec.rope.factor = *std::ranges::max_element(given);
    if (given.empty() || head_dim_ != 2 * std::ssize(given)) refuse("'rope_freqs.weight' has {} factors for heads of {}", given.size(), head_dim_);
    for (std::int64_t original = 256; original <= (1 << 20); original *= 2) {
      spec.rope.original_positions = original;
      const GgufTensor computed = gguf_tensors(spec, false).back();
      if (std::ranges::equal(computed.values, given, [](double a, double b) { return std::abs(a - b) <= 1e-4 * b; }))
        return {{"rope_type", "llama3"},      {"factor", spec.rope.factor},  {"low_freq_factor", 1.0},
                {"high_freq_factor", 4.0}, {"original_max_position_embeddings", original}};
    }
    refuse("the factors of 'rope_freqs.weight' are not those of rope scaling 'llama3'");
  }

  const GgufFile& file_;
  std::string arch_;
  const GgufFamily& family_;
  std::string model_;
  std::int64_t hidden_ = 0, heads_ = 0, head_dim_ = 0;
  Json j_ = Json::object();
};

}  // namespace

Json gguf_config(const GgufFile& file) { return ConfigOf(file).read(); }

}  // namespace dml
