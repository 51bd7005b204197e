// The settings of a LoRA adapter, with the names and meanings of PEFT's LoraConfig. Files are read and written in
// checkpoint/adapter_io; adapter_plan.h applies a config to a model.
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

#include "core/regex.h"
#include "model/spec.h"
#include "model/weight_names.h"

namespace dml {

/// Rows of an embedding or of the head that are trained (trainable_token_indices). `module` is a suffix of its name, as
/// in modules_to_save; "": the input embedding.
struct TokenRows {
  std::string module;
  std::vector<std::int64_t> tokens;

  bool operator==(const TokenRows&) const = default;
};

struct AdapterConfig {
  std::int64_t r = 8;
  double alpha = 8, dropout = 0;
  std::vector<std::string> target_modules{};
  std::string target_pattern{};                  // used instead of target_modules unless empty
  bool all_linear = false;                       // in addition to both: every linear layer except the head
  std::vector<std::string> target_parameters{};  // of experts, see model/expert_parameters.h
  std::vector<std::string> exclude_modules{};
  std::string exclude_pattern{};
  std::vector<std::pair<std::string, std::int64_t>> rank_pattern{};
  std::vector<std::pair<std::string, double>> alpha_pattern{};
  std::vector<std::string> modules_to_save{};  // trained in full
  std::vector<TokenRows> token_rows{};
  bool ensure_weight_tying = false;  // tied models: train one copy of embedding and head
  std::optional<std::vector<std::int64_t>> layers_to_transform{};
  std::vector<std::string> layers_pattern{};
  bool use_rslora = false, use_dora = false, lora_bias = false, fan_in_fan_out = false;
  std::string bias = "none";  // none, all, lora_only
  std::string init = "true";  // true, false, gaussian, pissa, pissa_niter_N, olora, loftq …
  std::int64_t loftq_iterations = 1;
  std::string base_model{};             // empty: null
  std::string revision{};               // of a base_model on the Hub; empty: null, its main branch
  HeadKind head = HeadKind::causal_lm;  // head of the model that the adapter was trained with (task_type)
  /// The model has more tokens than the base on disk, so the adapter's file also has the embedding and the head of the
  /// base. Not a field of adapter_config.json: PEFT compares the sizes of the vocabularies.
  bool resized = false;

  bool operator==(const AdapterConfig&) const = default;
};

/// The last name components ("q_proj") of modules, each once.
std::vector<std::string> last_parts(const std::vector<AdaptableModule>& modules);
/// The last name components of the linear layers that all_linear selects.
std::vector<std::string> linear_targets(const ModelSpec& spec);

/// Whether a module is the head of a classifier, "score" or "classifier"; PEFT lists both in modules_to_save.
bool is_classifier(std::string_view name);

/// The rules of a config, with compiled patterns.
class AdapterRules {
 public:
  /// Throws UserError, prefixed with `source`, for a pattern that does not compile.
  AdapterRules(const AdapterConfig& config, const std::string& source);

  bool targets(const AdaptableModule& module) const;
  /// Whether target_parameters has the parameter's full name or a dotted suffix of it.
  bool targets_parameter(std::string_view name) const;
  std::int64_t rank_for(std::string_view module) const;
  double alpha_for(std::string_view module) const;
  double scale_for(std::string_view module) const;
  /// Whether modules_to_save has a suffix of the name; as in PEFT, it need not begin after a dot.
  bool saves(std::string_view module) const;
  /// The keys of rank_pattern and alpha_pattern that match none of these names.
  std::vector<std::string> idle_patterns(const std::vector<std::string>& modules) const;

 private:
  bool excluded(std::string_view module) const;
  bool in_chosen_layer(std::string_view module) const;

  AdapterConfig config_;
  std::string source_;
  std::optional<Regex> target_, exclude_;
  std::vector<std::pair<Regex, std::int64_t>> ranks_;
  std::vector<std::pair<Regex, double>> alphas_;
};

}  // namespace dml
