// The sections of a recipe about the model and its adapter (recipe/recipe.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/json.h"
#include "recipe/choices.h"

namespace dml {

struct SpecialTokens {
  std::optional<std::string> bos_token, eos_token, pad_token, unk_token;
  std::vector<std::string> additional_special_tokens;
  bool operator==(const SpecialTokens&) const = default;
};

struct ModelSection {
  ModelTask task = ModelTask::causal_lm;         // not a key: follows from reward_model, process_reward_model
  std::string base_model;                        // model directory or name on the Hub; "" only with model_config
  std::optional<std::string> revision_of_model;  // revision of base_model on the Hub
  std::optional<std::string> base_model_config;  // directory of another config.json
  std::optional<std::string> tokenizer_config;   // directory of the tokenizer; unset: base_model
  bool tokenizer_metaspace = false;     // Metaspace instead of tokenizer.json's normalizer, as in transformers 5
  Json model_config = Json::object();   // overrides of config.json; without base_model, the whole config
  bool reinit_weights = false;          // train from scratch: random weights
  std::optional<DType> frozen_storage;  // dtype of frozen base weights; unset (auto): that of the files
  SpecialTokens special_tokens;
  std::vector<std::string> tokens;              // ordinary tokens to add
  bool resize_token_embeddings_to_32x = false;  // pad the number of embedding rows to a multiple of 32
  bool mean_resizing_embeddings = false;        // new embedding rows are the mean of the old ones; otherwise random
  std::map<std::int64_t, std::string> added_tokens_overrides;  // id of a reserved token → its new spelling
  bool operator==(const ModelSection&) const = default;
};

/// As in PEFT: a list has names or suffixes of modules, a text is a regular expression over the full module path.
struct TargetModules {
  std::vector<std::string> names;
  std::string regex;
  bool empty() const { return names.empty() && regex.empty(); }
  bool operator==(const TargetModules&) const = default;
};

/// PEFT's trainable_token_indices: for the input embedding, or by module name.
struct TokenIndices {
  std::vector<std::int64_t> tokens;
  std::map<std::string, std::vector<std::int64_t>> by_module;
  bool empty() const { return tokens.empty() && by_module.empty(); }
  bool operator==(const TokenIndices&) const = default;
};

struct AdapterSection {
  AdapterKind adapter = AdapterKind::none;  // none: full fine-tuning
  std::int64_t lora_r = 8;
  double lora_alpha = 16;
  double lora_dropout = 0;
  TargetModules lora_target_modules;
  bool lora_target_linear = false;                  // every linear layer but the output head
  std::vector<std::string> lora_target_parameters;  // parameters of experts (PEFT's target_parameters)
  std::vector<std::string> lora_modules_to_save;    // trained in full and saved with the adapter
  TokenIndices peft_trainable_token_indices;        // embedding rows that are trained
  bool peft_ensure_weight_tying = false;            // tied models: one trained copy for embedding and head
  std::optional<std::string> lora_model_dir;        // adapter to start from, infer with or merge
  bool lora_fan_in_fan_out = false;
  bool peft_use_dora = false;
  bool peft_use_rslora = false;
  LoraInit peft_init_lora_weights = LoraInit::kaiming;
  std::int64_t loftq_iter = 1;  // LoftQ: number of alternating updates of base and adapter
  // Regular expressions over module paths → r and alpha; the first that matches counts.
  std::vector<std::pair<std::string, std::int64_t>> lora_rank_pattern;
  std::vector<std::pair<std::string, double>> lora_alpha_pattern;
  std::vector<std::int64_t> peft_layers_to_transform;  // empty: all
  std::vector<std::string> peft_layers_pattern;
  std::optional<double> loraplus_lr_ratio;  // LoRA+: learning rate of B ÷ learning rate of A
  double loraplus_lr_embedding = 1e-6;
  bool load_in_4bit = false;  // nf4 base
  bool load_in_8bit = false;  // int8 base
  std::string quantized_cache_path =
      "last_run_prepared/quantized";             // default in a recipe: inside dataset_prepared_path
  std::vector<std::string> unfrozen_parameters;  // full fine-tuning: row patterns (recipe/row_pattern.h); empty: all
  bool relora = false;                           // merge and restart the adapter every jagged_restart_steps
  double relora_prune_ratio = 0.9;
  ReloraPrune relora_prune_method = ReloraPrune::magnitude;

  /// Whether the result of a run is a full model, not an adapter.
  bool makes_model() const { return adapter == AdapterKind::none || relora; }
  /// Whether training continues an adapter, and whether it creates one; neither in full fine-tuning.
  bool starts_from_adapter() const { return adapter != AdapterKind::none && lora_model_dir.has_value(); }
  bool creates_adapter() const { return adapter != AdapterKind::none && !lora_model_dir; }
  bool operator==(const AdapterSection&) const = default;
};

}  // namespace dml
