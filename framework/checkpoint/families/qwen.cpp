// Qwen; and the families whose norms stand after the blocks: OLMo 2 and 3, EXAONE 4.
#include "checkpoint/families/groups.h"
#include "core/error.h"
#include "core/shown.h"

namespace dml {
namespace {

constexpr Naming kNormsBehind{.input_norm = nullptr,
                              .post_attention_norm = "post_attention_layernorm",
                              .pre_ffn_norm = nullptr,
                              .post_ffn_norm = "post_feedforward_layernorm"};

void qwen_windows(ConfigFields& c, ModelSpec& s) {
  const bool slides = c.windows_in_use(s);
  if (auto* from = c.reader(); from && slides) {
    const std::int64_t full = from->integer("max_window_layers", 28);
    c.windows(s, 4096, [&](std::int64_t layer) { return layer >= full; });
  } else if (slides) {
    c.windows(s, 4096, {});
  } else if (Json* to = c.writer()) {
    (*to)["sliding_window"] = nullptr;
  }
}

void qwen2(ConfigFields& c, ModelSpec& s) {
  c.common(s, {.kv_heads = 32, .max_positions = 32768, .bos = -1, .eos = -1});
  s.bias.qkv = true;  // no key says so
  qwen_windows(c, s);
}

void qwen3(ConfigFields& c, ModelSpec& s) {
  c.common(s, {.head_dim = 128, .kv_heads = 32, .max_positions = 32768, .bos = -1, .eos = -1});
  c.attention_bias(s);
  s.qk_norm.over = QkNormSpec::Over::head;
  qwen_windows(c, s);
}

void olmo2(ConfigFields& c, ModelSpec& s) {
  c.common(s, {.norm_eps = 1e-5, .max_positions = 2048, .bos = -1, .eos = 50279});
  c.attention_bias(s);
  s.qk_norm.over = QkNormSpec::Over::all_heads;
}

// Scaling is for full layers only; written in version 4's keys, the sliding ones have the plain rope of the same base.
void olmo3(ConfigFields& c, ModelSpec& s) {
  const ConfigDefaults defaults{
      .norm_eps = 1e-5, .rope_theta = 5e5, .max_positions = 2048, .bos = -1, .eos = 50279, .ropes_of_layers = true};
  c.common(s, defaults);
  c.attention_bias(s);
  s.qk_norm.over = QkNormSpec::Over::all_heads;
  c.windows(s, 4096, [](std::int64_t layer) { return (layer + 1) % 4 != 0; });
  if (auto* from = c.reader()) {
    s.rope_local = from->nested_ropes() ? from->read_rope_of("sliding_attention", "rope_theta", s, defaults)
                                        : RopeSpec{.theta = s.rope.theta};
  } else if (*s.rope_local != RopeSpec{.theta = s.rope.theta}) {
    throw UserError("an olmo3 whose sliding layers have another rope cannot be written in these keys");
  }
}

// "sliding_window_pattern": 4, or "LLLG", with which the last layer is always full.
bool exaone_slides(const ConfigReader& c, const ModelSpec& s, std::int64_t layer) {
  if (!c.has("sliding_window_pattern") && c.is_null("sliding_window_pattern")) return false;
  if (c.has("sliding_window_pattern") && c.at("sliding_window_pattern").is_string()) {
    const std::string pattern = c.text("sliding_window_pattern", "");
    if (pattern.empty() || pattern.find_first_not_of("LG") != std::string::npos)
      throw UserError("{}: 'sliding_window_pattern' must be a number or letters L and G, is '{}'", c.source(),
                      shown(pattern, 60));
    return layer + 1 != s.layers && pattern[static_cast<std::size_t>(layer) % pattern.size()] == 'L';
  }
  const std::int64_t pattern = c.integer("sliding_window_pattern", 4);
  if (pattern < 0) throw UserError("{}: 'sliding_window_pattern' must be at least 0, is {}", c.source(), pattern);
  return pattern > 0 && (layer + 1) % pattern != 0;
}

void exaone4(ConfigFields& c, ModelSpec& s) {
  c.common(s, {.norm_eps = 1e-5, .kv_heads = 32, .max_positions = 2048, .bos = 0, .eos = 2});
  s.qk_norm.over = QkNormSpec::Over::head;
  c.windows(s, 4096, [&](std::int64_t layer) { return exaone_slides(*c.reader(), s, layer); });
  // With a window in the config, only the layers that have it turn.
  auto* from = c.reader();
  if (!from && s.windows.empty() && !s.without_rope.empty()) (*c.writer())["sliding_window"] = 4096;
  if (!from || from->sliding_window(4096) == 0) return;
  s.without_rope.assign(static_cast<std::size_t>(s.layers), true);
  for (std::size_t i = 0; i < s.windows.size(); ++i) s.without_rope[i] = s.windows[i] == 0;
}

}  // namespace

FamilyGroup qwen_families() {
  return {
      {"qwen2", "Qwen2ForCausalLM", "Qwen 2 and 2.5: biases on q, k, v", qwen2},
      {"qwen3", "Qwen3ForCausalLM", "Qwen 3: norms on q and k", qwen3},
      {"olmo2", "Olmo2ForCausalLM", "OLMo 2: norms after the blocks", olmo2, &kNormsBehind},
      {"olmo3", "Olmo3ForCausalLM", "OLMo 3: OLMo 2 with windows and two ropes", olmo3, &kNormsBehind},
      {"exaone4", "Exaone4ForCausalLM", "EXAONE 4: norms after the blocks, full layers without RoPE", exaone4,
       &kNormsBehind},
  };
}

}  // namespace dml
