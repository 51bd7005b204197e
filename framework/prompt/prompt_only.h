// Rows that are prompts only: the completions to train on are generated. Any format can supply the prompt of a row.
#pragma once

#include "prompt/strategy.h"

namespace dml {

/// The strategy of context.dataset->type if context.rows are prompts; nothing of its examples is trained. In a format
/// of questions, a string in `prompt` is the question; in a format of conversations, messages are the conversation.
std::unique_ptr<PromptStrategy> make_prompt_only(const PromptContext& context);
/// UserError when no table has the type's name.
void check_prompt_only_type(const DatasetType& type);

/// The context for commands that prompt the model; if rows are prompts only, it is that of the format they are written
/// in.
PromptContext answering_context(PromptContext context);

/// A row with the prompt under a name that every format reads.
Json row_of_prompt(const std::string& prompt, const DatasetEntry& dataset);
/// The record, whose `prompt` the dataset's format reads: a string is the question, a list the conversation.
Json question_row(const Json& record, const DatasetEntry& dataset);

}  // namespace dml
