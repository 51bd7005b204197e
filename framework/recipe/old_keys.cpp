// Keys of Axolotl that correspond to other settings of dml and need more than an alias.
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "recipe/fields.h"
#include "recipe/stages.h"

namespace dml::recipe {
namespace {

Node text_node(std::string text, Place place) {
  Node node;
  node.kind = Node::Kind::scalar;
  node.text = std::move(text);
  node.place = place;
  return node;
}

/// Removes a key from a map and returns its value; null if it is missing or has no value.
struct Taken {
  Node key, value;
  explicit operator bool() const { return !value.is_null() && canonical_bool(value.text) != "false"; }
};
Taken take(Node& map, std::string_view key) {
  for (std::size_t i = 0; i < map.keys.size(); ++i)
    if (map.keys[i].text == key) {
      Taken taken{map.keys[i], map.items[i]};
      map.keys.erase(map.keys.begin() + static_cast<std::ptrdiff_t>(i));
      map.items.erase(map.items.begin() + static_cast<std::ptrdiff_t>(i));
      return taken;
    }
  return {};
}

void put(Node& map, std::string key, Node value) {
  Place place = value.place;
  map.keys.push_back(text_node(std::move(key), place));
  map.items.push_back(std::move(value));
}

/// The ZeRO stage of a DeepSpeed config: the digit after "zero" in a file name, or zero_optimization.stage of a table.
std::string zero_stage(const Node& deepspeed) {
  std::string stage;
  if (deepspeed.is_scalar()) {
    auto at = deepspeed.text.rfind("zero");
    if (at != std::string::npos && at + 4 < deepspeed.text.size()) stage = deepspeed.text.substr(at + 4, 1);
  } else if (const Node* zero = deepspeed.find("zero_optimization")) {
    if (const Node* found = zero->find("stage")) stage = found->text;
  }
  return stage;
}

/// The distribution that corresponds to FSDP's sharding strategy, given in a list (fsdp: [hybrid_shard, auto_wrap]), by
/// name or number in a table (fsdp_config), or by FSDP2's reshard_after_forward.
std::string fsdp_strategy(const Node& fsdp, const Node* config) {
  std::string text = fsdp.is_scalar() ? fsdp.text : "";
  for (const Node& item : fsdp.items)
    if (item.is_scalar()) text += " " + item.text;
  std::string reshard = "true";
  if (config)
    for (std::size_t i = 0; i < config->keys.size() && i < config->items.size(); ++i) {
      if (config->keys[i].text.ends_with("sharding_strategy")) text = config->items[i].text;
      if (config->keys[i].text.ends_with("reshard_after_forward")) reshard = canonical_bool(config->items[i].text);
    }
  text = ascii_lower(text);
  auto has = [&](const char* part) { return text.find(part) != text.npos; };
  if (has("hybrid_shard_zero2") || text == "5") return "hybrid_zero2";
  if (has("hybrid") || text == "4") return "hybrid";
  if (has("no_shard") || text == "3") return "ddp";
  return has("shard_grad_op") || text == "2" || reshard == "false" ? "zero2" : "zero3";
}

void map_sharding(Node& root, Report& report) {
  Taken deepspeed = take(root, "deepspeed"), fsdp = take(root, "fsdp"), config = take(root, "fsdp_config"),
        replicas = take(root, "dp_replicate_size");
  if (!fsdp && config) fsdp = config;
  if (replicas) report.notice("dp_replicate_size has no effect: it follows from dp_shard_size and the number of ranks");
  const Node* own = root.find("distribution");
  if (own && !own->is_null()) {
    if (deepspeed || fsdp) report.notice("distribution is set, so deepspeed and fsdp settings have no effect");
    return;
  }
  if (deepspeed) {
    std::string stage = zero_stage(deepspeed.value);
    if (stage.size() != 1 || stage < "0" || stage > "3")
      return report.error(deepspeed.value.place,
                          "'deepspeed' files are not read; set distribution: zero1, zero2 or zero3 instead");
    std::string name = stage == "0" ? "ddp" : "zero" + stage;
    report.notice(fmt::format("deepspeed: {} is mapped to distribution: {}",
                              shown(deepspeed.value.is_scalar() ? deepspeed.value.text : "a table"), name));
    put(root, "distribution", text_node(name, deepspeed.value.place));
  } else if (const Node* size = root.find("dp_shard_size"); size && !size->is_null()) {
    const std::string within = fsdp ? fsdp_strategy(fsdp.value, config ? &config.value : nullptr) : "hybrid";
    const std::string name = within.ends_with("zero2") ? "hybrid_zero2" : "hybrid";
    report.notice(fmt::format("dp_shard_size is mapped to distribution: {}", name));
    put(root, "distribution", text_node(name, size->place));
  } else if (fsdp) {
    std::string name = fsdp_strategy(fsdp.value, config ? &config.value : nullptr);
    report.notice(fmt::format("fsdp is mapped to distribution: {}", name));
    put(root, "distribution", text_node(name, fsdp.value.place));
  }
}

void map_message_fields(Node& entry, Report& report) {
  for (const char* property : {"role", "content"}) {
    std::string key = fmt::format("message_field_{}", property);
    Taken old = take(entry, key);
    if (!old) continue;
    report.notice(fmt::format("{}: {} is mapped to message_property_mappings: {{{}: {}}}", key, shown(old.value.text),
                              property, shown(old.value.text)));
    auto at = std::ranges::find(entry.keys, "message_property_mappings", &Node::text);
    if (at == entry.keys.end()) {
      Node mapping;
      mapping.kind = Node::Kind::map;
      mapping.place = old.value.place;
      for (const char* name : {"content", "role"}) put(mapping, name, text_node(name, old.value.place));
      put(entry, "message_property_mappings", mapping);
      at = entry.keys.end() - 1;
    }
    Node& mapping = entry.items[static_cast<std::size_t>(at - entry.keys.begin())];
    take(mapping, property);
    put(mapping, property, old.value);
  }
}

/// Axolotl's plug-ins are Python modules. The known ones are accepted: dml has their functions, they concern GPUs, or
/// the notice about their keys covers them. Others would change the training, so they are errors. A path is a plug-in
/// of dml.
void check_plugins(Node& root, Report& report) {
  static constexpr std::string_view kHarmless[] = {"cut_cross_entropy", "liger", "kernels", "lm_eval", "swanlab"};
  Taken plugins = take(root, "plugins");
  if (!plugins) return;
  const auto is_file = [](const Node& n) { return n.text.find('/') != std::string::npos || n.text.ends_with(".so"); };
  std::vector<std::string> idle;
  std::erase_if(plugins.value.items, [&](const Node& plugin) {
    if (!plugin.is_scalar() || is_file(plugin)) return false;
    if (std::ranges::any_of(kHarmless, [&](auto name) { return plugin.text.find(name) != std::string::npos; }))
      idle.push_back(shown(plugin.text));
    else
      report.error(plugin.place, fmt::format("the plug-in '{}' is not supported: dml runs no Python code; remove it",
                                             shown(plugin.text)));
    return true;
  });
  if (!idle.empty()) report.notice(fmt::format("plugins: no effect on CPUs: {}", fmt::join(idle, ", ")));
  if (plugins.value.is_scalar() || !plugins.value.items.empty()) put(root, "plugins", plugins.value);
}

/// Maps old keys of DPO that dpo_loss_type has replaced.
void map_old_losses(Node& root, Report& report) {
  Taken alpha = take(root, "rpo_alpha"), norm = take(root, "dpo_norm_loss");
  if (!alpha && !norm) return;
  const Place place = alpha ? alpha.value.place : norm.value.place;
  if (const Node* own = root.find("dpo_loss_type"); own && !own->is_null())
    return report.error(place, fmt::format("'{}' does not work with dpo_loss_type, which has replaced it",
                                           alpha ? "rpo_alpha" : "dpo_norm_loss"));
  auto list = [&](std::vector<std::string> items) {
    Node node;
    node.kind = Node::Kind::list;
    node.place = place;
    for (std::string& item : items) node.items.push_back(text_node(std::move(item), place));
    return node;
  };
  const std::string loss = norm ? "sigmoid_norm" : "sigmoid";
  if (norm) report.notice("dpo_norm_loss is mapped to dpo_loss_type: [sigmoid_norm]");
  if (alpha)
    report.notice(fmt::format("rpo_alpha: {0} is mapped to dpo_loss_type: [{1}, sft] and dpo_loss_weights: [1, {0}]",
                              shown(alpha.value.text), loss));
  put(root, "dpo_loss_type", alpha ? list({loss, "sft"}) : list({loss}));
  if (alpha) put(root, "dpo_loss_weights", list({"1", alpha.value.text}));
}

/// Maps boolean keys that stand for a value of another key (Choice::flags).
void map_flags(Node& root, Report& report) {
  std::vector<std::string> given;
  for (const Node& key : root.keys)
    if (find_flag(key.text)) given.push_back(key.text);
  for (const std::string& key : given) {
    const auto [field, choice] = find_flag(key);
    const Taken flag = take(root, key);
    if (!flag) continue;
    const Place place = flag.value.place;
    if (canonical_bool(flag.value.text) != "true") {
      report.error(place, fmt::format("'{}' must be true or false, is '{}'", key, shown(flag.value.text)));
    } else if (const Node* own = root.find(field->key); own && !own->is_null()) {
      report.error(place,
                   fmt::format("'{}' means {}: {}, but '{}' is set, too", key, field->key, choice->value, field->key));
    } else {
      report.notice(fmt::format("{} is mapped to {}: {}", key, field->key, choice->value));
      put(root, field->key, text_node(choice->spelling, place));
    }
  }
}

/// What these arguments of bitsandbytes ask for would give other weights than dml's 4-bit bases have.
void check_bitsandbytes(const Node& root, Report& report) {
  const Node* kwargs = root.find("bnb_config_kwargs");
  if (!kwargs) return;
  if (const Node* type = kwargs->find("bnb_4bit_quant_type"); type && type->is_scalar() && type->text != "nf4")
    report.error(type->place, fmt::format("'bnb_config_kwargs.bnb_4bit_quant_type' must be nf4, is '{}': 4-bit bases "
                                          "are stored as NF4",
                                          shown(type->text)));
  if (const Node* twice = kwargs->find("bnb_4bit_use_double_quant"); twice && canonical_bool(twice->text) == "false")
    report.error(twice->place,
                 "'bnb_config_kwargs.bnb_4bit_use_double_quant: false' is not supported: the scales of 4-bit bases are "
                 "quantized as well; remove it");
}

/// A class of transformers; that of MXFP4 describes gpt-oss's own files.
void check_quantization_class(const Node& root, Report& report) {
  const Node* value = root.find("model_quantization_config");
  if (value && !value->is_null() && !(value->is_scalar() && value->text.empty()) && value->text != "Mxfp4Config")
    report.error(value->place,
                 fmt::format("'model_quantization_config' must be Mxfp4Config, is {}: the model directory says how its "
                             "weights are stored, and load_in_4bit and load_in_8bit quantize others",
                             value->is_scalar() ? fmt::format("'{}'", shown(value->text)) : "a table"));
}

/// Experts are quantized with the rest of the base.
void check_quantized_experts(const Node& root, Report& report) {
  const auto is_on = [&](const char* key) {
    const Node* value = root.find(key);
    return value && canonical_bool(value->text) == "true";
  };
  const Node* adapter = root.find("adapter");
  const bool quantized = is_on("load_in_4bit") || is_on("load_in_8bit") || (adapter && adapter->text == "qlora");
  if (is_on("quantize_moe_experts") && !quantized)
    report.error(root.find("quantize_moe_experts")->place,
                 "'quantize_moe_experts' is not supported without a quantized base: set load_in_4bit or load_in_8bit");
}

}  // namespace

void map_old_keys(Node& root, Report& report) {
  map_flags(root, report);
  map_old_losses(root, report);
  map_sharding(root, report);
  check_plugins(root, report);
  check_bitsandbytes(root, report);
  check_quantization_class(root, report);
  check_quantized_experts(root, report);
  for (const char* key : {"dp_shard_size", "dp_replicate_size"})
    if (const Node* value = root.find(key); value && value->text == "1") take(root, key);
  if (const Node* value = root.find("save_safetensors"); value && canonical_bool(value->text) == "false")
    report.error(value->place, "'save_safetensors: false' is not supported: dml writes safetensors only; remove it");
  for (std::size_t i = 0; i < root.keys.size(); ++i) {
    Node& value = root.items[i];
    if (root.keys[i].text == "pretraining_dataset" && (value.is_scalar() || value.kind == Node::Kind::map)) {
      Node entry = value;
      if (value.is_scalar()) {
        entry = Node{};
        entry.kind = Node::Kind::map;
        entry.place = value.place;
        put(entry, "path", value);
      }
      value.kind = Node::Kind::list;
      value.keys.clear();
      value.items = {entry};
    }
    if (root.keys[i].text == "datasets" || root.keys[i].text == "test_datasets")
      for (Node& entry : value.items) map_message_fields(entry, report);
  }
}

}  // namespace dml::recipe
