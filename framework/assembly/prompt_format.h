// How a prompt becomes the text that a recipe trained on, and the same as a chat template that needs no recipe.
#pragma once

#include <string>

#include "core/json.h"
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

/// The text that the template puts between its generation prompt and an answer: " " for templates like
/// "ASSISTANT: Hello", "" for most.
std::string text_before_answers(const PromptStrategy& strategy, const DatasetEntry& dataset);

/// A chat template that gives any program the prompts of this recipe: the template of training with
/// chat_template_kwargs and default_system_message written into it; for instruction formats (alpaca …) one that lays
/// out a user message as the format does. "" for plain text, and where no single template gives the same tokens.
std::string portable_chat_template(const Recipe& recipe, const Tokenizer& tokenizer);

}  // namespace dml
