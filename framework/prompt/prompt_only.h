// Rows that are only asked: what is trained from is generated after their prompts. Any format gives the prompt of a
// row.
#pragma once

#include "prompt/strategy.h"

namespace dml {

/// The strategy for context.dataset->type where context.rows are prompts; nothing of its examples is trained. A row
/// with a text in `prompt` is a question in that format; one with messages there is a conversation.
std::unique_ptr<PromptStrategy> make_prompt_only(const PromptContext& context);
/// UserError when the type is a name that no table has.
void check_prompt_only_type(const DatasetType& type);

/// The context for commands that prompt the model: where the rows are prompts only, the format they are written in.
PromptContext answering_context(PromptContext context);

/// A row with the prompt under the name every format reads it from.
Json row_of_prompt(const std::string& prompt, const DatasetEntry& dataset);

}  // namespace dml
