#include "checkpoint/model_config.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "checkpoint/bitsandbytes.h"
#include "checkpoint/config_fields.h"
#include "core/closest.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/shown.h"

namespace dml {
namespace {

constexpr JsonLimits kConfigLimits{std::size_t{1} << 20, 64, 4096, 1u << 16};

/// Keys that change the mathematics unless they have this value (or null), where a family does not read them.
struct Neutral {
  const char* key;
  Json value;
  const char* why;
};

const std::vector<Neutral>& neutral_values() {
  static const std::vector<Neutral> table = {
      {"is_encoder_decoder", false, "only decoders are supported"},
      {"add_cross_attention", false, "only decoders are supported"},
      {"use_bidirectional_attention", false, "only causal attention is supported"},
      {"alibi", false, ""},
      {"attention_chunk_size", nullptr, ""},
      {"attention_multiplier", nullptr, ""},
      {"clip_qkv", nullptr, ""},
      {"embedding_multiplier", 1, ""},
      {"logit_scale", 1, ""},
      {"logits_scaling", 1, ""},
      {"no_rope_layers", nullptr, ""},
      {"per_layer_config", Json::object(), "the layers of a model must be alike"},
      {"n_routed_experts", 0, "a model of this type has no experts"},
      {"num_experts", 0, "a model of this type has no experts"},
      {"num_kv_shared_layers", 0, ""},
      {"num_local_experts", 0, "a model of this type has no experts"},
      {"qk_layernorm", false, ""},
      {"residual_multiplier", 1, ""},
      {"use_qk_norm", false, ""},
      {"scale_attn_by_inverse_layer_idx", false, ""},
      {"scale_attn_weights", true, ""},
  };
  return table;
}

void refuse_unknown_mathematics(const Json& config, const ConfigReader& reader, const std::string& source) {
  Problems problems;
  for (auto& n : neutral_values()) {
    auto it = config.find(n.key);
    if (it == config.end() || it->is_null() || *it == n.value || reader.asked(n.key)) continue;
    problems.add(fmt::format("{}: '{}' is {}, which dml does not support{}{}", source, n.key, shown(dump(*it)),
                             *n.why ? ": " : "", n.why));
  }
  problems.raise();
}

// Known by name and refused: a hint at the nearest spelling would lead astray.
struct Refused {
  std::string_view model_type, why;
};
constexpr std::string_view kExperts = "its mixture of experts is not one of those dml has";
constexpr Refused kRefused[] = {
    {"phimoe", kExperts},
    {"deepseek_v2", kExperts},
    {"llama4", kExperts},
};

const Family& family_of(const Json& config, const std::string& source) {
  if (!config.is_object()) throw UserError("{}: expected an object of settings", source);
  std::string type = json_string(config, "model_type", "", source);
  if (type.empty()) throw UserError("{}: no 'model_type'", source);
  if (const Family* family = find_family(type)) return *family;
  std::vector<std::string> names;
  for (auto& f : families()) names.push_back(f.model_type);
  for (auto& r : kRefused)
    if (type == r.model_type) throw UserError("{}: model_type '{}' is not supported: {}", source, type, r.why);
  throw UserError("{}: model_type '{}' is not supported{}", source, shown(type, 60), did_you_mean(type, names));
}

// transformers goes by the model_type, so files have other spellings: MPTForCausalLM, Ernie4_5_ForCausalLM.
std::string bare(std::string_view architecture) {
  std::string out;
  for (unsigned char c : architecture)
    if (c != '_') out += static_cast<char>(std::tolower(c));
  return out;
}

bool has_architecture(const Json& config, std::string_view architecture) {
  auto it = config.find("architectures");
  return it != config.end() && it->is_array() && std::ranges::any_of(*it, [&](const Json& a) {
           return a.is_string() && bare(a.get_ref<const std::string&>()) == bare(architecture);
         });
}

void check_architecture(const Json& config, std::string_view architecture, std::string_view model_type,
                        const std::string& source) {
  auto it = config.find("architectures");
  if (it == config.end() || it->is_null() || it->empty() || has_architecture(config, architecture)) return;
  throw UserError("{}: 'architectures' is {}, expected [\"{}\"] for model_type '{}'", source, shown(dump(*it), 100),
                  architecture, model_type);
}

// Classes of a classifier, as transformers counts them.
std::int64_t label_count(const Json& config, const std::string& source) {
  constexpr std::int64_t kUsual = 2, kMax = 4096;
  auto names = config.find("id2label");
  const bool listed = names != config.end() && names->is_object() && !names->empty();
  const std::int64_t count =
      json_integer(config, "num_labels", listed ? static_cast<std::int64_t>(names->size()) : kUsual, source);
  if (count < 1 || count > kMax) throw UserError("{}: 'num_labels' must be 1 to {}, is {}", source, kMax, count);
  return count;
}

bool has_dtype(const Json& config) {
  return std::ranges::any_of(std::array{"dtype", "torch_dtype"},
                             [&](const char* key) { return config.contains(key) && !config[key].is_null(); });
}

// What the text part says, with what the whole says for it: its type, its ids, and whether embedding and head are one.
Json text_config(const Wrapper& wrapper, const Json& whole, const std::string& source) {
  auto it = whole.find("text_config");
  if (it == whole.end() || !it->is_object())
    throw UserError("{}: no 'text_config', which a {} has", source, wrapper.model_type);
  Json text = *it;
  text["model_type"] = wrapper.family;
  text.erase("architectures");
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id", "quantization", "quantization_config"})
    if (whole.contains(key) && !text.contains(key)) text[key] = whole[key];
  if (has_dtype(whole)) text.erase("dtype"), text.erase("torch_dtype");  // the type of the whole counts
  for (const char* key : {"dtype", "torch_dtype", "tie_word_embeddings"})
    if (whole.contains(key) && !whole[key].is_null()) text[key] = whole[key];
  for (auto [key, value] : wrapper.defaults)
    if (!text.contains(key) || text[key].is_null()) text[key] = value;
  return text;
}

}  // namespace

ModelSpec read_model_config(const Json& config, const std::string& source) {
  if (config.is_object())
    if (const Wrapper* wrapper = find_wrapper(json_string(config, "model_type", "", source))) {
      check_architecture(config, wrapper->architecture, wrapper->model_type, source);
      ModelSpec spec = read_model_config(text_config(*wrapper, config, source), source + ": text_config");
      spec.naming = wrapper->naming;
      return spec;
    }
  const Family& family = family_of(config, source);
  HeadKind head = HeadKind::causal_lm;
  for (HeadKind kind : {HeadKind::sequence_classification, HeadKind::token_classification})
    if (has_architecture(config, architecture_of(family, kind))) head = kind;
  check_architecture(config, architecture_of(family, head), family.model_type, source);
  is_bitsandbytes_config(config, source);  // refuses every other quantization
  if (config.contains("auto_map")) log_info("{}: 'auto_map' names Python code, which is not run", source);
  ModelSpec spec;
  spec.model_type = family.model_type;
  spec.naming = family.naming;
  const ConfigReader reader(config, source);
  ConfigFields fields(reader);
  family.fields(fields, spec);
  refuse_unknown_mathematics(config, reader, source);
  if (head != HeadKind::causal_lm) spec = spec.with_head(head, label_count(config, source));
  spec.check(source);
  return spec;
}

std::vector<std::string> misspelt_config_keys(const Json& config, const Json& given) {
  const std::string source = "model_config", type = json_string(config, "model_type", "", source);
  if (find_wrapper(type)) return {};
  ModelSpec spec;
  const ConfigReader reader(config, source);
  ConfigFields fields(reader);
  family_of(config, source).fields(fields, spec);
  const std::vector<std::string> known(reader.asked_keys().begin(), reader.asked_keys().end());
  std::vector<std::string> out;
  for (auto& [key, value] : given.items())
    if (const std::string near = reader.asked(key) ? "" : closest(key, known); !near.empty())
      out.push_back(fmt::format("model_config: a model of type {} has no '{}'; did you mean '{}'?", type, key, near));
  return out;
}

std::string architecture_of(const Family& family, HeadKind head) {
  std::string name = family.architecture;
  if (head == HeadKind::causal_lm) return name;
  for (std::string_view end : {"ForCausalLM", "LMHeadModel"})
    if (name.ends_with(end)) name.erase(name.size() - end.size());
  if (family.model_type == "gemma3_text") name += "Text";
  return name + (head == HeadKind::sequence_classification ? "ForSequenceClassification" : "ForTokenClassification");
}

std::string class_missing_in_transformers(const ModelSpec& spec) {
  static constexpr std::array<std::string_view, 9> kNoSequences = {
      "apertus", "cohere", "cohere2", "ernie4_5", "granite", "granitemoe", "olmo2", "olmo3", "olmoe"};
  static constexpr std::array<std::string_view, 10> kNoTokens = {
      "cohere",     "cohere2",          "ernie4_5", "gemma3_text", "granite",
      "granitemoe", "hunyuan_v1_dense", "olmo2",    "olmo3",       "olmoe"};
  const bool missing = spec.head == HeadKind::sequence_classification
                           ? std::ranges::find(kNoSequences, spec.model_type) != kNoSequences.end()
                       : spec.head == HeadKind::token_classification
                           ? std::ranges::find(kNoTokens, spec.model_type) != kNoTokens.end()
                           : false;
  const Family* family = missing ? find_family(spec.model_type) : nullptr;
  return family ? architecture_of(*family, spec.head) : "";
}

Json head_settings(const ModelSpec& spec) {
  if (spec.head == HeadKind::causal_lm) return Json::object();
  Json names = Json::object(), numbers = Json::object();
  for (std::int64_t i = 0; i < spec.labels; ++i) {
    names[fmt::format("{}", i)] = fmt::format("LABEL_{}", i);
    numbers[fmt::format("LABEL_{}", i)] = i;
  }
  const Family* family = find_family(spec.model_type);
  DML_CHECK(family, "no family '{}'", spec.model_type);
  Json out{{"architectures", Json::array({architecture_of(*family, spec.head)})},
           {"id2label", names},
           {"label2id", numbers}};
  // transformers finds the last token of a text by the pad token, and refuses batches without one.
  if (spec.pad < 0 && !spec.eos.empty()) out["pad_token_id"] = spec.eos[0];
  return out;
}

ModelSpec read_model_spec(const std::string& directory) {
  std::string path = (std::filesystem::path(directory) / "config.json").string();
  if (!file_exists(path)) throw UserError("{}: no config.json; not a model folder", directory);
  ModelSpec spec = read_model_config(read_json(path, kConfigLimits), path);

  std::string generation = (std::filesystem::path(directory) / "generation_config.json").string();
  if (file_exists(generation)) {
    Json config = read_json(generation, kConfigLimits);
    if (!config.is_object()) throw UserError("{}: expected an object of settings", generation);
    for (Token id : ConfigReader(config, generation).tokens("eos_token_id", -1))
      if (std::ranges::find(spec.eos, id) == spec.eos.end()) spec.eos.push_back(id);
    spec.check(generation);
  }
  return spec;
}

std::string config_dropout(const Json& config) {
  const bool gpt2 = json_string(config, "model_type", "", "config.json") == "gpt2";
  std::vector<std::string> asked;
  for (const char* key : {"attention_dropout", "attn_pdrop", "embd_pdrop", "embedding_dropout", "hidden_dropout",
                          "resid_pdrop", "residual_dropout"}) {
    auto it = config.find(key);
    const double absent = gpt2 && std::string_view(key).ends_with("_pdrop") ? 0.1 : 0;
    const double p = it == config.end() ? absent : it->is_number() ? it->get<double>() : 0;
    if (p > 0) asked.push_back(fmt::format("{} {}", key, p));
  }
  return fmt::format("{}", fmt::join(asked, ", "));
}

std::string pretty_json(const Json& value) { return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace dml
