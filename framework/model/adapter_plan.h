// An AdapterConfig applied to a model: which modules get adapters, what is trained in full or by rows, and the tensors
// of PEFT's file.
//
// The embedding and the head of a tied model are one matrix, but PEFT wraps them separately: an adapter that saves or
// adapts one of them leaves the other at the base's values, and one that saves both trains two copies. Such a plan
// unties the head: the model is built as an untied one whose head is initialized with the embedding. With
// ensure_weight_tying, one copy is trained for both, and trained rows of the embedding (trainable_token_indices) are
// also those of the head.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/adapter_config.h"
#include "model/expert_parameters.h"
#include "model/weight_names.h"

namespace dml {

struct AdaptedModule {
  AdaptableModule module;
  std::int64_t r = 0;
  double scale = 0;
};

/// An adapted parameter of target_parameters.
struct AdaptedExperts {
  ExpertParameter parameter;
  std::string stem;  // prefix of its tensors: the module, followed by ".base_layer" if down is adapted, too
  std::int64_t r = 0;
  double scale = 0;
};

/// Trained rows of the embedding or the head, in the order of the config.
struct TrainedRows {
  WeightName weight;
  std::vector<std::int64_t> tokens;
};

struct AdapterPlan {
  std::vector<AdaptedModule> modules;  // in the order of the model
  std::vector<AdaptedExperts> experts;
  std::vector<WeightName> saved;   // one entry per tensor of modules_to_save
  std::vector<WeightName> biases;  // biases of the base that are trained: `bias` all or lora_only
  std::vector<TrainedRows> rows;   // in a tied model those of the embedding are also the head's
  bool unties_head = false;        // the spec is tied, and the adapter needs two matrices

  const AdaptedModule* adapted(std::string_view module) const;
  const TrainedRows* rows_of(WeightRole role) const;
  /// The experts whose B the tensor `key` is; null if none.
  const AdaptedExperts* experts_of(std::string_view key) const;
  /// Whether a tensor is trained in full; the head of a tied model is if the embedding is.
  bool saves(const WeightName& weight, const ModelSpec& spec) const;
};

/// Throws UserError if a language model gets a reward model's adapter, if nothing is targeted, if a rank or alpha is
/// invalid, or if a field requests something that dml does not support.
AdapterPlan plan_adapter(const AdapterConfig& config, const ModelSpec& spec, const std::string& source);

/// A line for each name in target_modules that matches no module and is close to the name of a module that is not
/// targeted. Other names without a match are accepted, as in PEFT: a recipe may list the modules of several families.
std::vector<std::string> misspelt_targets(const AdapterConfig& config, const ModelSpec& spec);

/// A line for each pattern of a rank or alpha that matches no adapted module.
std::vector<std::string> idle_patterns(const AdapterConfig& config, const ModelSpec& spec);

/// The config as PEFT writes it for this model: target_modules as a list instead of all_linear; modules_to_save with
/// the embedding only if embedding and head are one copy.
AdapterConfig resolved_config(AdapterConfig config, const ModelSpec& spec);

/// A tensor of adapter_model.safetensors.
struct AdapterTensor {
  enum class Kind { a, b, b_bias, magnitude, saved, bias, rows, base };
  Kind kind;
  std::string key;  // "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
  std::string
      module;  // "model.layers.0.self_attn.q_proj"; of saved, bias, rows and base: the tensor's name in the base
  std::vector<std::int64_t> shape;
  std::string parameter{};  // the parameter with its values; "" for base: frozen values of the base

  /// Whether it has trained values and is not a second copy of another tensor.
  bool trained() const { return parameter == key; }
};
/// All tensors of the file, in the order of the plan.
std::vector<AdapterTensor> adapter_tensors(const AdapterConfig& config, const ModelSpec& spec, const AdapterPlan& plan);

/// The name in PEFT's file of a trained tensor of the base.
std::string parameter_key(const WeightName& weight, const AdapterPlan& plan);
/// The name of the parameter with the trained rows of a matrix.
std::string rows_key(const WeightName& weight);

/// The embedding and the head, even if the head is tied.
std::vector<WeightName> embedding_and_head(const ModelSpec& spec);

}  // namespace dml
