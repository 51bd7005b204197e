// The settings of a LoRA adapter, with the names and the meaning of PEFT's fields; the file is read and written in
// checkpoint/adapter_io. How a config applies to a model is in adapter_plan.h.
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

/// Rows of an embedding or of the head that are trained by themselves (trainable_token_indices). The module is named by
/// its end, as in modules_to_save; "": the input embedding.
struct TokenRows {
  std::string module;
  std::vector<std::int64_t> tokens;

  bool operator==(const TokenRows&) const = default;
};

struct AdapterConfig {
  std::int64_t r = 8;
  double alpha = 8, dropout = 0;
  std::vector<std::string> target_modules{};
  std::string target_pattern{};                  // instead of target_modules, when not empty
  bool all_linear = false;                       // beside target_modules: every linear layer but the head
  std::vector<std::string> target_parameters{};  // of experts: model/expert_parameters.h
  std::vector<std::string> exclude_modules{};
  std::string exclude_pattern{};
  std::vector<std::pair<std::string, std::int64_t>> rank_pattern{};
  std::vector<std::pair<std::string, double>> alpha_pattern{};
  std::vector<std::string> modules_to_save{};  // trained whole
  std::vector<TokenRows> token_rows{};
  bool ensure_weight_tying = false;  // of a tied model: one copy of embedding and head is trained
  std::optional<std::vector<std::int64_t>> layers_to_transform{};
  std::vector<std::string> layers_pattern{};
  bool use_rslora = false, use_dora = false, lora_bias = false, fan_in_fan_out = false;
  std::string bias = "none";  // none, all, lora_only
  std::string init = "true";  // true, false, gaussian, pissa, pissa_niter_N, olora, loftq …
  std::int64_t loftq_iterations = 1;
  std::string base_model{};             // empty: null
  HeadKind head = HeadKind::causal_lm;  // of the model that it was trained with (task_type)
  /// The model has more tokens than the base on disk, so its file holds the base's embedding and head, too. Not a field
  /// of the file: PEFT compares the two vocabularies.
  bool resized = false;

  bool operator==(const AdapterConfig&) const = default;
};

/// How target_modules names the linear layers that all_linear stands for: by their last parts ("q_proj").
std::vector<std::string> linear_targets(const ModelSpec& spec);

/// Whether a module is the head of a classifier. Families call it by either name, and PEFT names both in
/// modules_to_save of any.
bool is_classifier(std::string_view name);

/// A config with its patterns compiled, asked module by module.
class AdapterRules {
 public:
  /// UserError for a pattern that does not compile; `source` in front.
  AdapterRules(const AdapterConfig& config, const std::string& source);

  bool targets(const AdaptableModule& module) const;
  /// Whether target_parameters names a parameter, by its whole name or its last dotted parts.
  bool targets_parameter(std::string_view name) const;
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
  std::optional<Regex> target_, exclude_;
  std::vector<std::pair<Regex, std::int64_t>> ranks_;
  std::vector<std::pair<Regex, double>> alphas_;
};

}  // namespace dml
