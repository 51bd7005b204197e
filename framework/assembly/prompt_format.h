// Renders prompts as in the training of a recipe, and makes an equivalent chat template that needs no recipe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "prompt/strategy.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"

namespace dml {

/// The dataset whose format is used for answers: the recipe's first one, else messages through a chat template.
DatasetEntry answering_dataset(const Recipe* recipe);

/// Whether the dataset's type goes through a chat template.
bool uses_chat_template(const DatasetEntry& dataset);
/// Whether the dataset's rows are plain text.
bool is_plain_text(const DatasetEntry& dataset);
/// Whether an answer continues the text of its prompt, which is plain text or segments (input_output).
bool continues_text(const DatasetEntry& dataset);
/// Whether choose_chat_template() finds one for this recipe (null: none), dataset and tokenizer.
bool has_chat_template(const Recipe* recipe, const DatasetEntry& dataset, const Tokenizer& tokenizer);

/// How prompts are rendered for answers: in the format of the recipe's first dataset, else by the model's chat
/// template.
struct AnsweringTemplate {
  /// Prompts are plain text. `recipe` may be null.
  explicit AnsweringTemplate(const Recipe* recipe);
  /// In the dataset's format, unless that needs a chat template and there is none.
  AnsweringTemplate(const Recipe* recipe, const Tokenizer& tokenizer);

  /// Whether an answer continues the text of its prompt.
  bool continues() const { return !strategy || continues_text(dataset); }

  DataSection data;
  TemplateSection templates;
  DatasetEntry dataset;
  std::unique_ptr<PromptStrategy> strategy;  // null: prompts are plain text
  bool space = false;  // the template writes a space before answers ("ASSISTANT: Hello"), which is removed
};

/// Token ids of a text that a model continues: with the tokenizer's BOS and without its EOS.
std::vector<Token> open_text_ids(const Tokenizer& tokenizer, const std::string& text, bool parse_special);
/// UserError for a token that a model with `vocabulary` rows in its embedding does not have.
void require_rows(const std::vector<Token>& ids, const Tokenizer& tokenizer, std::int64_t vocabulary);

/// A chat template with which any program renders this recipe's prompts: that of the training with chat_template_kwargs
/// and default_system_message written into it; for instruction formats (alpaca …), one that renders a user message in
/// that format. "" for plain text, and if no single template yields the same tokens.
std::string portable_chat_template(const Recipe& recipe, const Tokenizer& tokenizer);

}  // namespace dml
