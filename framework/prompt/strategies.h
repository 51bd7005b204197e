// The strategies other than chat templates, one factory each; prompt/registry.cpp gives them names.
#pragma once

#include <memory>

#include "prompt/instruction_formats.h"
#include "prompt/strategy.h"

namespace dml {

/// The strategy of a row of the table of instruction formats.
std::unique_ptr<PromptStrategy> make_instruction(const InstructionFormat& format, const PromptContext& context);
/// The strategy of a custom format (`type:` as a table).
std::unique_ptr<PromptStrategy> make_user_format(const PromptContext& context);
/// Plain text, trained as a whole: one document per row, split into examples of sequence_len tokens.
std::unique_ptr<PromptStrategy> make_completion(const PromptContext& context);
/// {"segments": [{"text", "label"}]}: each is tokenized separately and nothing is added; special tokens are spelled out
/// in the text.
std::unique_ptr<PromptStrategy> make_input_output(const PromptContext& context);
/// {"input_ids", "labels"?, "attention_mask"?}: used as given; positions with mask 0 are dropped.
std::unique_ptr<PromptStrategy> make_pre_tokenized(const PromptContext& context);
/// {"conversations": [{"role": system|human|bot, "value"}]}
std::unique_ptr<PromptStrategy> make_pygmalion(const PromptContext& context);
/// {"conversations": [{"from": system|human|gpt, "value"}]} between [INST] and [/INST].
std::unique_ptr<PromptStrategy> make_llama2_chat(const PromptContext& context);
/// Conversations made of columns (`message_columns`), rendered by a chat template.
std::unique_ptr<PromptStrategy> make_column_chat(const PromptContext& context);
/// ChatGPT's conversations.json: {"mapping": {id: {"message", "parent", "children"}}, "current_node"}, rendered by a
/// chat template. The conversation is the branch shown last; hidden messages, tool calls and files are dropped.
std::unique_ptr<PromptStrategy> make_chatgpt(const PromptContext& context);

}  // namespace dml
