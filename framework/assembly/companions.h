// Companion files of a model: with them, the model answers without the recipe as it does with the recipe. They are the
// tokenizer, the chat template as rendered in training, generation_config.json with every stop token, for an adapter
// quantization_config.json of its base, and the model card. Results, checkpoints and merged models all use this code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "assembly/base_model.h"
#include "core/json.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"

namespace dml {

/// Results for the model card.
struct CardFacts {
  std::int64_t step = -1;                 // steps trained so far; negative: not stated
  std::optional<double> validation_loss;  // the lowest of the run
  std::int64_t best_step = -1;            // the step at which it was measured
};

class Companions {
 public:
  /// `tokenizer` is the recipe's and outlives this object. `base`: the model whose generation_config.json is extended.
  Companions(const RecipeFile& file, const Tokenizer& tokenizer, const BaseModel& base);

  /// Writes the files into a folder that holds an adapter or a model, replacing existing ones. Thread-safe.
  void write(const std::string& folder, const CardFacts& facts = {}) const;

  /// Ids of all stop tokens, end-of-turn tokens first.
  const std::vector<Token>& stop_tokens() const { return stop_tokens_; }

 private:
  const RecipeFile& file_;
  const Tokenizer& tokenizer_;
  std::string chat_template_, eot_token_;
  bool keeps_template_;  // without one of its own: that of the tokenizer
  std::vector<Token> stop_tokens_;
  Json generation_, config_ids_;  // generation_config.json; entries of config.json that the recipe changes
  std::string quantization_;      // the text of quantization_config.json; "" if the base is not quantized
};

/// The stop tokens: eot_tokens, the tokenizer's EOS, then `others`; each once.
std::vector<Token> stop_tokens(const TemplateSection& templates, const Tokenizer& tokenizer,
                               const std::vector<Token>& others);

/// Bytes of the tokenizer's files, which are in every checkpoint and result: often more than an adapter.
std::size_t tokenizer_bytes(const ModelSection& model);

/// Copies tokenizer, template, generation config and quantization config of an adapter to the folder of its converted
/// form.
void copy_companions(const std::string& from, const std::string& to);

/// The text of README.md: front matter as PEFT and Axolotl write it, what was trained and how, and the recipe.
std::string model_card(const RecipeFile& file, bool adapter, const std::string& name, const CardFacts& facts);

}  // namespace dml
