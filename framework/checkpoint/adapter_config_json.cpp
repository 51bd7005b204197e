// adapter_config.json ↔ AdapterConfig. Source: peft/config.py (to_json: indent 2, sorted keys) and
// tuners/lora/config.py.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "checkpoint/adapter_io.h"
#include "checkpoint/model_config.h"
#include "core/error.h"
#include "core/shown.h"

namespace dml {
namespace {

constexpr std::size_t kMaxList = 65536, kMaxTokens = std::size_t{1} << 22;

/// Fields that change what an adapter computes and that dml does not support, unless they are "empty".
constexpr const char* kRefusedKeys[] = {
    "alora_invocation_tokens", "arrow_config",      "kasa_config", "layer_replication", "lora_ga_config",
    "megatron_config",         "monteclora_config", "use_bdlora",  "use_qalora",        "velora_config"};

/// PEFT's task_type of each head.
using TaskType = std::pair<HeadKind, std::string>;
const std::vector<TaskType>& task_types() {
  static const std::vector<TaskType> all = {{HeadKind::causal_lm, "CAUSAL_LM"},
                                            {HeadKind::sequence_classification, "SEQ_CLS"},
                                            {HeadKind::token_classification, "TOKEN_CLS"}};
  return all;
}

bool is_empty(const Json& v) { return v.is_null() || v == false || ((v.is_array() || v.is_object()) && v.empty()); }

std::vector<std::string> strings(const Json& json, const char* key, const std::string& source) {
  std::vector<std::string> out;
  auto it = json.find(key);
  if (it == json.end() || it->is_null()) return out;
  auto is_name = [](auto& v) { return v.is_string() && !v.template get_ref<const std::string&>().empty(); };
  if (!it->is_array() || it->size() > kMaxList || !std::all_of(it->begin(), it->end(), is_name))
    throw UserError("{}: '{}' must be a list of module names, is {}", source, key, shown(dump(*it)));
  for (auto& v : *it) out.push_back(v);
  return out;
}

const Json* object_at(const Json& json, const char* key, const std::string& source) {
  auto it = json.find(key);
  if (it == json.end() || it->is_null()) return nullptr;
  if (!it->is_object()) throw UserError("{}: '{}' must be an object, is {}", source, key, shown(dump(*it)));
  return &*it;
}

std::string init_name(const Json& json, const std::string& source) {
  auto it = json.find("init_lora_weights");
  if (it == json.end() || it->is_null()) return "true";
  if (it->is_boolean()) return *it ? "true" : "false";
  if (it->is_string()) return *it;
  throw UserError("{}: 'init_lora_weights' must be true, false or a name, is {}", source, shown(dump(*it)));
}

// The fields of LoftQConfig; PEFT supports 2, 4 and 8 bits.
std::int64_t loftq_iterations(const Json& json, const std::string& source) {
  const Json* config = object_at(json, "loftq_config", source);
  if (!config) return 1;
  std::string place = source + ": loftq_config";
  std::int64_t bits = json_integer(*config, "loftq_bits", 4, place),
               iterations = json_integer(*config, "loftq_iter", 1, place);
  if (bits != 4) throw UserError("{}: 'loftq_bits' is {}, only 4 is supported", place, bits);
  if (iterations < 1 || iterations > 100)
    throw UserError("{}: 'loftq_iter' must be 1 to 100, is {}", place, iterations);
  return iterations;
}

void read_layers(const Json& json, const std::string& source, AdapterConfig& c) {
  auto it = json.find("layers_to_transform");
  if (it != json.end() && !it->is_null()) {
    Json list = it->is_array() ? *it : Json::array({*it});
    c.layers_to_transform.emplace();
    for (auto& v : list) {
      if (!v.is_number_integer() || v < 0 || v > 65536)
        throw UserError("{}: 'layers_to_transform' must be layer numbers, is {}", source, shown(dump(*it)));
      c.layers_to_transform->push_back(v);
    }
  }
  it = json.find("layers_pattern");
  if (it != json.end() && it->is_string()) {
    if (!it->get_ref<const std::string&>().empty()) c.layers_pattern = {it->get<std::string>()};
  } else {
    c.layers_pattern = strings(json, "layers_pattern", source);
  }
}

std::vector<std::int64_t> token_list(const Json& list, const std::string& source) {
  std::vector<std::int64_t> out;
  if (!list.is_array() || list.size() > kMaxTokens)
    throw UserError("{}: 'trainable_token_indices' must be token ids, or token ids by module, is {}", source,
                    shown(dump(list)));
  for (auto& v : list) {
    if (!v.is_number_integer() || v < 0 || v > (std::int64_t{1} << 31))
      throw UserError("{}: 'trainable_token_indices': {} is not a token id", source, shown(dump(v)));
    out.push_back(v);
  }
  return out;
}

void read_token_rows(const Json& json, const std::string& source, AdapterConfig& c) {
  auto it = json.find("trainable_token_indices");
  if (it == json.end() || is_empty(*it)) return;
  if (!it->is_object()) {
    c.token_rows.push_back({"", token_list(*it, source)});
    return;
  }
  for (auto& [module, list] : it->items()) {
    if (module.empty()) throw UserError("{}: 'trainable_token_indices' names a module ''", source);
    if (!is_empty(list)) c.token_rows.push_back({module, token_list(list, source)});
  }
}

Json token_rows_json(const std::vector<TokenRows>& all) {
  if (all.empty()) return nullptr;
  if (all.size() == 1 && all[0].module.empty()) return all[0].tokens;
  Json out = Json::object();
  for (const TokenRows& rows : all) out[rows.module] = rows.tokens;
  return out;
}

/// Reads a list of names, or a string that is a pattern.
void read_names(const Json& json, const char* key, const std::string& source, std::vector<std::string>& names,
                std::string& pattern) {
  auto it = json.find(key);
  if (it != json.end() && it->is_string()) pattern = it->get<std::string>();
  else names = strings(json, key, source);
}

std::int64_t rank(const Json& object, const char* key, std::int64_t fallback, const std::string& source) {
  std::int64_t r = json_integer(object, key, fallback, source);
  if (r < 1 || r > (1 << 16)) throw UserError("{}: '{}' must be 1 to 65536, is {}", source, key, r);
  return r;
}

double alpha(const Json& object, const char* key, double fallback, const std::string& source) {
  double a = json_number(object, key, fallback, source);
  if (!(std::abs(a) < 1e9) || a == 0) throw UserError("{}: '{}' must be a number other than 0, is {}", source, key, a);
  return a;
}

/// PEFT writes alpha as an integer where possible.
Json alpha_json(double a) {
  if (a == std::floor(a) && std::abs(a) < 1e15) return static_cast<std::int64_t>(a);
  return a;
}

Json list_or_null(const std::vector<std::string>& list) { return list.empty() ? Json(nullptr) : Json(list); }

Json names_json(const std::vector<std::string>& names, const std::string& pattern) {
  return pattern.empty() ? list_or_null(names) : Json(pattern);
}

}  // namespace

AdapterConfig read_adapter_config(const Json& json, const std::string& source, const std::string& model_type) {
  if (!json.is_object()) throw UserError("{}: expected an object of settings", source);
  std::string type = json_string(json, "peft_type", "", source);
  if (type.empty()) throw UserError("{}: no 'peft_type'; not a PEFT adapter", source);
  if (type != "LORA") throw UserError("{}: peft_type '{}' is not supported, only LORA is", source, shown(type, 60));
  const std::string task = json_string(json, "task_type", "CAUSAL_LM", source);
  const auto known = std::ranges::find(task_types(), task, &TaskType::second);
  if (known == task_types().end())
    throw UserError("{}: task_type '{}' is not supported, only CAUSAL_LM, SEQ_CLS and TOKEN_CLS are", source,
                    shown(task, 60));
  for (const char* key : kRefusedKeys)
    if (auto it = json.find(key); it != json.end() && !is_empty(*it))
      throw UserError("{}: '{}' is {}, which dml does not support", source, key, shown(dump(*it)));

  AdapterConfig c;
  c.head = known->first;
  c.r = rank(json, "r", 8, source);
  c.alpha = alpha(json, "lora_alpha", 8, source);
  c.dropout = json_number(json, "lora_dropout", 0, source);
  if (!(c.dropout >= 0 && c.dropout < 1))
    throw UserError("{}: 'lora_dropout' must be at least 0 and below 1, is {}", source, c.dropout);
  c.target_parameters = strings(json, "target_parameters", source);
  read_names(json, "target_modules", source, c.target_modules, c.target_pattern);
  if (c.target_pattern == "all-linear") {
    c.target_pattern.clear();
    c.all_linear = true;
  } else if (c.target_modules.empty() && c.target_pattern.empty() && c.target_parameters.empty() &&
             !model_type.empty()) {
    c.target_modules = default_targets(model_type);
  }
  read_names(json, "exclude_modules", source, c.exclude_modules, c.exclude_pattern);
  if (auto* object = object_at(json, "rank_pattern", source))
    for (auto& [key, value] : object->items())
      c.rank_pattern.emplace_back(key, rank(*object, key.c_str(), 0, source + ": rank_pattern"));
  if (auto* object = object_at(json, "alpha_pattern", source))
    for (auto& [key, value] : object->items())
      c.alpha_pattern.emplace_back(key, alpha(*object, key.c_str(), 0, source + ": alpha_pattern"));
  c.modules_to_save = strings(json, "modules_to_save", source);
  read_token_rows(json, source, c);
  c.ensure_weight_tying = json_bool(json, "ensure_weight_tying", false, source);
  read_layers(json, source, c);
  if (c.layers_to_transform && (c.all_linear || !c.target_pattern.empty()))
    throw UserError("{}: 'layers_to_transform' needs 'target_modules' as a list of names", source);
  c.use_rslora = json_bool(json, "use_rslora", false, source);
  c.use_dora = json_bool(json, "use_dora", false, source);
  c.lora_bias = json_bool(json, "lora_bias", false, source);
  c.fan_in_fan_out = json_bool(json, "fan_in_fan_out", false, source);
  c.bias = json_string(json, "bias", "none", source);
  if (c.bias != "none" && c.bias != "all" && c.bias != "lora_only")
    throw UserError("{}: 'bias' is '{}', choose from none, all, lora_only", source, shown(c.bias, 60));
  c.init = init_name(json, source);
  if (c.init == "loftq") c.loftq_iterations = loftq_iterations(json, source);
  c.base_model = json_string(json, "base_model_name_or_path", "", source);
  c.revision = json_string(json, "revision", "", source);
  AdapterRules check_patterns(c, source);
  return c;
}

std::string adapter_config_text(const AdapterConfig& c) {
  std::map<std::string, Json> j;  // sorted, as PEFT writes them
  for (const char* key :
       {"alora_invocation_tokens", "arrow_config", "auto_mapping", "corda_config", "eva_config", "kasa_config",
        "layer_replication", "lora_ga_config", "megatron_config", "monteclora_config", "use_bdlora", "velora_config"})
    j[key] = nullptr;
  j["revision"] = c.revision.empty() ? Json(nullptr) : Json(c.revision);
  j["use_qalora"] = false;
  j["ensure_weight_tying"] = c.ensure_weight_tying;
  j["trainable_token_indices"] = token_rows_json(c.token_rows);
  j["alpha_pattern"] = Json::object();  // in its own order: the first pattern that matches counts
  for (auto& [key, value] : c.alpha_pattern) j["alpha_pattern"][key] = alpha_json(value);
  j["base_model_name_or_path"] = c.base_model.empty() ? Json(nullptr) : Json(c.base_model);
  j["bias"] = c.bias;
  j["exclude_modules"] = names_json(c.exclude_modules, c.exclude_pattern);
  j["fan_in_fan_out"] = c.fan_in_fan_out;
  j["inference_mode"] = true;
  j["init_lora_weights"] = c.init == "true" ? Json(true) : c.init == "false" ? Json(false) : Json(c.init);
  j["layers_pattern"] = list_or_null(c.layers_pattern);
  j["layers_to_transform"] = c.layers_to_transform ? Json(*c.layers_to_transform) : Json(nullptr);
  j["loftq_config"] = Json::object();
  if (c.init == "loftq") j["loftq_config"] = {{"loftq_bits", 4}, {"loftq_iter", c.loftq_iterations}};
  j["lora_alpha"] = alpha_json(c.alpha);
  j["lora_bias"] = c.lora_bias;
  j["lora_dropout"] = c.dropout;
  j["megatron_core"] = "megatron.core";
  j["modules_to_save"] = list_or_null(c.modules_to_save);
  j["peft_type"] = "LORA";
  j["peft_version"] = "0.21.0";  // the version that has this layout
  j["qalora_group_size"] = 16;
  j["r"] = c.r;
  j["rank_pattern"] = Json::object();
  for (auto& [key, value] : c.rank_pattern) j["rank_pattern"][key] = value;
  j["target_modules"] = c.all_linear ? Json("all-linear") : names_json(c.target_modules, c.target_pattern);
  j["target_parameters"] = list_or_null(c.target_parameters);
  j["task_type"] = std::ranges::find(task_types(), c.head, &TaskType::first)->second;
  j["use_dora"] = c.use_dora;
  j["use_rslora"] = c.use_rslora;
  Json all = Json::object();
  for (auto& [key, value] : j) all[key] = std::move(value);
  return all.dump(2, ' ', true, Json::error_handler_t::replace);
}

}  // namespace dml
