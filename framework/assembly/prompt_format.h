// Renders prompts as in the training of a recipe, and makes an equivalent chat template that needs no recipe.
#pragma once

#include <string>

#include "prompt/strategy.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"

namespace dml {

/// The dataset whose format is used for answers: the recipe's first one, else messages through a chat template.
DatasetEntry answering_dataset(const Recipe* recipe);

/// Whether the dataset's type goes through a chat template.
bool uses_chat_template(const DatasetEntry& dataset);
/// Whether the dataset's type is plain text that the model continues.
bool continues_text(const DatasetEntry& dataset);
/// Whether choose_chat_template() finds one for this recipe (null: none), dataset and tokenizer.
bool has_chat_template(const Recipe* recipe, const DatasetEntry& dataset, const Tokenizer& tokenizer);

/// The text between the template's generation prompt and an answer: " " for templates like "ASSISTANT: Hello", "" for
/// most.
std::string text_before_answers(const PromptStrategy& strategy, const DatasetEntry& dataset);

/// A chat template with which any program renders this recipe's prompts: that of the training with chat_template_kwargs
/// and default_system_message written into it; for instruction formats (alpaca …), one that renders a user message in
/// that format. "" for plain text, and if no single template yields the same tokens.
std::string portable_chat_template(const Recipe& recipe, const Tokenizer& tokenizer);

}  // namespace dml
