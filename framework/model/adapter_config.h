// What a LoRA adapter is, with PEFT's fields and PEFT's meaning; the file is read and written in checkpoint/adapter_io.
//
// A module gets an adapter when a target equals its name or its last dotted parts, or when the target pattern matches
// the whole name. The rank of a module is that of the first rank_pattern whose key, as a pattern, matches the name or
// its end. y += scale · B A x with scale = alpha / r, or alpha / √r (rsLoRA, Kalajdzievski 2023).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/name_pattern.h"
#include "model/spec.h"
#include "model/weight_names.h"

namespace dml {

struct AdapterConfig {
  std::int64_t r = 8;
  double alpha = 8, dropout = 0;
  std::vector<std::string> target_modules{};
  std::string target_pattern{};  // instead of target_modules, when not empty
  bool all_linear = false;       // instead of both: every linear layer but the head
  std::vector<std::string> exclude_modules{};
  std::string exclude_pattern{};
  std::vector<std::pair<std::string, std::int64_t>> rank_pattern{};
  std::vector<std::pair<std::string, double>> alpha_pattern{};
  std::vector<std::string> modules_to_save{};  // trained whole
  std::optional<std::vector<std::int64_t>> layers_to_transform{};
  std::vector<std::string> layers_pattern{};
  bool use_rslora = false, use_dora = false, lora_bias = false, fan_in_fan_out = false;
  std::string bias = "none";  // none, all, lora_only
  std::string init = "true";  // true, false, gaussian, pissa, pissa_niter_N, olora, loftq …
  std::int64_t loftq_iterations = 1;
  std::string base_model{};  // empty: null

  bool operator==(const AdapterConfig&) const = default;
};

/// What PEFT adapts in a family when target_modules is null.
std::vector<std::string> default_targets(const std::string& model_type);

/// A config with its patterns compiled, asked module by module.
class AdapterRules {
 public:
  /// UserError for a pattern that does not compile; `source` in front.
  AdapterRules(const AdapterConfig& config, const std::string& source);

  bool targets(const AdaptableModule& module) const;
  std::int64_t rank_for(std::string_view module) const;
  double alpha_for(std::string_view module) const;
  double scale_for(std::string_view module) const;
  /// Whether modules_to_save names it: PEFT asks for the end of the name, dot or not.
  bool saves(std::string_view module) const;

 private:
  bool excluded(std::string_view module) const;
  bool in_chosen_layer(std::string_view module) const;

  AdapterConfig config_;
  std::string source_;
  std::optional<NamePattern> target_, exclude_;
  std::vector<std::pair<NamePattern, std::int64_t>> ranks_;
  std::vector<std::pair<NamePattern, double>> alphas_;
};

struct AdaptedModule {
  AdaptableModule module;
  std::int64_t r = 0;
  double scale = 0;
};

/// A config applied to a model: where adapters sit and which tensors are trained whole.
struct AdapterPlan {
  std::vector<AdaptedModule> modules;  // in the order of the model
  std::vector<WeightName> saved;       // one row per tensor of modules_to_save
};

/// UserError when nothing is targeted, when a rank or alpha is impossible, or when a field asks for what dml cannot do.
AdapterPlan plan_adapter(const AdapterConfig& config, const ModelSpec& spec, const std::string& source);

/// The tensors of adapter_model.safetensors, in the order of the plan.
struct AdapterTensor {
  enum class Kind { a, b, magnitude, saved };
  Kind kind;
  std::string key;     // "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
  std::string module;  // "model.layers.0.self_attn.q_proj"; saved: the tensor's own name
  std::vector<std::int64_t> shape;
};
std::vector<AdapterTensor> adapter_tensors(const AdapterConfig& config, const AdapterPlan& plan);

}  // namespace dml
