// The strategies that are no conversation templates, one factory each; prompt/registry.cpp names them.
#pragma once

#include <memory>

#include "prompt/instruction_formats.h"
#include "prompt/strategy.h"

namespace dml {

/// A row of the table of instruction formats.
std::unique_ptr<PromptStrategy> make_instruction(const InstructionFormat& format, const PromptContext& context);
/// The user's own format (`type:` as a table).
std::unique_ptr<PromptStrategy> make_user_format(const PromptContext& context);
/// Plain text, all of it trained: one document a row, cut into rows of sequence_len without loss.
std::unique_ptr<PromptStrategy> make_completion(const PromptContext& context);
/// {"segments": [{"text", "label"}]}: each tokenised alone, nothing added; special tokens are written out in the text.
std::unique_ptr<PromptStrategy> make_input_output(const PromptContext& context);
/// {"input_ids", "labels"?, "attention_mask"?}: taken as they are; positions with mask 0 are left out.
std::unique_ptr<PromptStrategy> make_pre_tokenised(const PromptContext& context);
/// {"conversations": [{"role": system|human|bot, "value"}]}
std::unique_ptr<PromptStrategy> make_pygmalion(const PromptContext& context);
/// {"conversations": [{"from": system|human|gpt, "value"}]} between [INST] and [/INST].
std::unique_ptr<PromptStrategy> make_llama2_chat(const PromptContext& context);
/// Conversations out of columns (`message_columns`), through a chat template.
std::unique_ptr<PromptStrategy> make_column_chat(const PromptContext& context);
/// ChatGPT's conversations.json: {"mapping": {id: {"message", "parent", "children"}}, "current_node"}, through a chat
/// template. The branch that was last shown is the conversation; hidden messages, tool calls and files are left out.
std::unique_ptr<PromptStrategy> make_chatgpt(const PromptContext& context);

}  // namespace dml
