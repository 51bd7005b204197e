// Writes config.json from a ModelSpec, with the keys that every transformers from 4.30 on reads (torch_dtype,
// rope_theta, rope_scaling). read_model_config() of the result gives the same spec:
// tests/checkpoint/model_config_test.cpp.
#include "checkpoint/config_fields.h"
#include "checkpoint/model_config.h"
#include "core/error.h"

namespace dml {
namespace {

Json id_or_null(Token id) { return id < 0 ? Json(nullptr) : Json(id); }

Json ids(const std::vector<Token>& list) {
  if (list.empty()) return nullptr;
  return list.size() == 1 ? Json(list[0]) : Json(list);
}

}  // namespace

Json config_json(const ModelSpec& spec, const std::string& dtype) {
  Json j = Json::object();
  const Family* family = find_family(spec.model_type);
  DML_CHECK(family, "no family '{}'", spec.model_type);
  j["architectures"] = Json::array({family->architecture});
  j["model_type"] = spec.model_type;
  j["vocab_size"] = spec.vocab;
  ConfigFields fields(j);
  ModelSpec written = spec;  // the list of fields may set members that have no key
  family->fields(fields, written);
  fields.finish(spec);
  j["tie_word_embeddings"] = spec.tied;
  j["initializer_range"] = spec.init_range;
  j["bos_token_id"] = id_or_null(spec.bos);
  j["eos_token_id"] = ids(spec.eos);
  j["pad_token_id"] = id_or_null(spec.pad);
  j["torch_dtype"] = dtype;
  j["use_cache"] = true;
  j.update(head_settings(spec));
  return j;
}

namespace {

// Applies a change of version 4's rope keys to a config with version 5's: beside rope_parameters, transformers would
// ignore rope_theta, and would use rope_scaling without the base in rope_parameters.
bool change_rope_parameters(Json& config, const std::string& key, const Json& value) {
  auto all = config.find("rope_parameters");
  if (all == config.end() || !all->is_object() || all->empty()) return false;
  Json& rope = all->contains("full_attention") ? (*all)["full_attention"] : *all;
  const bool nested = all->contains("sliding_attention") && (*all)["sliding_attention"].is_object();
  const bool one_base = config.contains("model_type") && config["model_type"] == "olmo3";  // for both kinds of layers
  if (nested && (key == "rope_local_base_freq" || (key == "rope_theta" && one_base)))
    (*all)["sliding_attention"]["rope_theta"] = value;
  if (nested && key == "rope_local_base_freq") return true;
  if (key == "rope_theta" || key == "partial_rotary_factor") {
    rope[key] = value;
  } else if (key == "rope_scaling" && (value.is_object() || value.is_null())) {
    Json kept = Json::object();
    for (const char* base : {"rope_theta", "partial_rotary_factor"})
      if (rope.contains(base)) kept[base] = rope[base];
    kept.update(value.is_null() ? Json{{"rope_type", "default"}} : value);
    rope = kept;
  } else {
    return false;
  }
  return true;
}

// Whether a key says which layers have windows: "layer_types" would take precedence.
bool chooses_windows(const std::string& key) {
  return key == "use_sliding_window" || key == "max_window_layers" || key == "sliding_window_pattern";
}

// The object that holds a key: in a multimodal model, keys that the whole config does not have belong to the text part.
Json& place_of(Json& config, const std::string& key) {
  const bool whole = key == "dtype" || key == "torch_dtype" || key == "tie_word_embeddings" || config.contains(key);
  return whole || !config.contains("text_config") || !config["text_config"].is_object() ? config
                                                                                        : config["text_config"];
}

}  // namespace

Json rewrite_config(const Json& original, const Json& changes) {
  const bool new_dialect =
      original.contains("dtype") || (original.contains("rope_parameters") && !original.contains("torch_dtype"));
  Json out = original;
  for (auto& [key, value] : changes.items()) {
    Json& part = place_of(out, key);
    if (change_rope_parameters(part, key, value)) continue;
    part[key == "dtype" && !new_dialect ? "torch_dtype" : key] = value;
    if (key == "dtype" && new_dialect) part.erase("torch_dtype");
    if (key == "dtype" && out.contains("text_config")) {  // which would keep the old type
      for (const char* name : {"dtype", "torch_dtype"})
        if (out["text_config"].contains(name)) out["text_config"][name] = value;
    }
    if (key == "rope_parameters") part.erase("rope_scaling");  // which would take precedence
    if (chooses_windows(key) && !changes.contains("layer_types")) part.erase("layer_types");
    if (key == "dtype")
      out.erase("quantization"), out.erase("quantization_config");  // the weights are not quantized any more
  }
  return out;
}

}  // namespace dml
