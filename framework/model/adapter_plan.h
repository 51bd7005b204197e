// An AdapterConfig applied to a model: where adapters sit, what is trained whole or row by row, and which tensors
// PEFT's file of it holds.
//
// The embedding and the head of a tied model are one matrix. PEFT wraps each of them by itself: an adapter that saves
// or adapts one of them leaves the other at the base's values, and one that saves both trains two copies. Such a plan
// parts the ends, and the model is built as an untied one whose head starts as the embedding. With ensure_weight_tying
// one copy is trained for both, and rows of the embedding (trainable_token_indices) are the head's, too.
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

/// A parameter of target_parameters.
struct AdaptedExperts {
  ExpertParameter parameter;
  std::string stem;  // of its tensors: the module, and after it ".base_layer" where down is adapted, too
  std::int64_t r = 0;
  double scale = 0;
};

/// Rows of the embedding or the head, in the order of the config.
struct TrainedRows {
  WeightName weight;
  std::vector<std::int64_t> tokens;
};

struct AdapterPlan {
  std::vector<AdaptedModule> modules;  // in the order of the model
  std::vector<AdaptedExperts> experts;
  std::vector<WeightName> saved;   // one entry per tensor of modules_to_save
  std::vector<WeightName> biases;  // trained where they are: bias all or lora_only
  std::vector<TrainedRows> rows;   // of a tied model: the head has the embedding's
  bool parts_ends = false;         // the spec is tied, and the adapter makes two matrices of one

  const AdaptedModule* adapted(std::string_view module) const;
  const TrainedRows* rows_of(WeightRole role) const;
  /// Whose B the tensor of this name is; null: of no experts.
  const AdaptedExperts* experts_of(std::string_view key) const;
  /// Whether a tensor of this model is trained whole; the head of a tied model is where the embedding is.
  bool saves(const WeightName& weight, const ModelSpec& spec) const;
};

/// UserError when nothing is targeted, when a rank or alpha is impossible, or when a field asks for what dml cannot do.
AdapterPlan plan_adapter(const AdapterConfig& config, const ModelSpec& spec, const std::string& source);

/// The config as PEFT writes it for this model: target_modules as a list where it was all_linear, modules_to_save with
/// the embedding's name alone where one copy serves both ends.
AdapterConfig resolved_config(AdapterConfig config, const ModelSpec& spec);

/// The tensors of adapter_model.safetensors, in the order of the plan.
struct AdapterTensor {
  enum class Kind { a, b, b_bias, magnitude, saved, bias, rows, base };
  Kind kind;
  std::string key;     // "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
  std::string module;  // "model.layers.0.self_attn.q_proj"; saved, bias, rows, base: the tensor's own name
  std::vector<std::int64_t> shape;
  std::string parameter{};  // whose values these are; "" with base: the base's, frozen

  /// Whether it holds values that are trained, and is no second copy of them.
  bool trained() const { return parameter == key; }
};
std::vector<AdapterTensor> adapter_tensors(const AdapterConfig& config, const ModelSpec& spec, const AdapterPlan& plan);

/// The name that the parameter of a trained tensor of the base has in PEFT's file.
std::string parameter_key(const WeightName& weight, const AdapterPlan& plan);
/// The parameter that holds trained rows of a matrix.
std::string rows_key(const WeightName& weight);

/// The embedding, then the head, also where the head is tied.
std::vector<WeightName> end_weights(const ModelSpec& spec);

}  // namespace dml
