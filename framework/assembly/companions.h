// Files beside the weights, with which they answer without the recipe as they do with it: the tokenizer, the chat
// template as rendered in training, generation_config.json with every token that ends an answer, and the model card.
// Results, checkpoints and merged models all get it from here.
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
  std::int64_t step = -1;                 // trained so far; negative: not said
  std::optional<double> validation_loss;  // lowest of the run
  std::int64_t best_step = -1;            // where it was measured
};

class Companions {
 public:
  /// `tokenizer` is the recipe's and outlives this. `base`: whose generation_config.json is built upon.
  Companions(const RecipeFile& file, const Tokenizer& tokenizer, const BaseModel& base);

  /// Into a folder that holds an adapter or a model. Replaces what lies there. Safe to call from any thread.
  void write(const std::string& folder, const CardFacts& facts = {}) const;

  /// Ids of all tokens that end an answer, the ends of turns first.
  const std::vector<Token>& stop_tokens() const { return stop_tokens_; }

 private:
  const RecipeFile& file_;
  const Tokenizer& tokenizer_;
  std::string chat_template_, eot_token_;
  std::vector<Token> stop_tokens_;
  Json generation_, config_ids_;  // generation_config.json; entries of config.json that the recipe changes
};

/// Ids that end an answer: eot_tokens, the tokenizer's eos, then `others`; each once.
std::vector<Token> stop_tokens(const TemplateSection& templates, const Tokenizer& tokenizer,
                               const std::vector<Token>& others);

/// Copies tokenizer, template and generation config of an adapter that is written in another form.
void copy_companions(const std::string& from, const std::string& to);

/// README.md: front matter as PEFT and Axolotl write it, then what was trained and how, and the recipe.
std::string model_card(const RecipeFile& file, bool adapter, const std::string& name, const CardFacts& facts);

}  // namespace dml
