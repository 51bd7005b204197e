// The table of prompt strategies: every `type:` a dataset can have.
#include "core/log.h"
#include "prompt/chat_template.h"
#include "prompt/strategies.h"
#include "prompt/strategy.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

std::unique_ptr<PromptStrategy> make_chat(const PromptContext& context) {
  auto strategy = make_chat_template(context);
  for (auto& warning : chat_template_warnings(context)) log_warning("{}", warning);
  return strategy;
}

// Conversations as sharegpt spells them, unless the dataset says otherwise.
std::unique_ptr<PromptStrategy> make_sharegpt(const PromptContext& context) {
  DatasetEntry dataset = context.dataset ? *context.dataset : DatasetEntry{};
  const DatasetEntry defaults;
  if (dataset.field_messages == defaults.field_messages) dataset.field_messages = "conversations";
  if (dataset.message_property_mappings == defaults.message_property_mappings)
    dataset.message_property_mappings = {{"role", "from"}, {"content", "value"}};
  PromptContext own = context;
  own.dataset = &dataset;
  return make_chat(own);
}

std::vector<Registry<PromptFactory>::Row> rows() {
  std::vector<Registry<PromptFactory>::Row> out;
  for (auto& format : instruction_formats())
    out.push_back(
        {format.name, format.help, [&format](const PromptContext& c) { return make_instruction(format, c); }});
  out.push_back({"completion", "text (or `field`): plain text, all of it learned", make_completion});
  out.push_back({"pretrain", "text (or `text_column`): plain text, all of it learned", make_completion});
  out.push_back({"text", "text: plain text, all of it learned", make_completion});
  out.push_back({"input_output", "segments of {text, label}: no template", make_input_output});
  out.push_back({"pygmalion", "conversations of {role: system|human|bot, value}", make_pygmalion});
  out.push_back(
      {"llama2_chat", "conversations of {from: system|human|gpt, value} between [INST] and [/INST]", make_llama2_chat});
  out.push_back({"chat_template", "messages of {role, content} through a chat template", make_chat});
  out.push_back({"openai", "the same as chat_template: messages, tools", make_chat});
  out.push_back({"sharegpt", "conversations of {from, value} through a chat template", make_sharegpt});
  return out;
}

}  // namespace

Registry<PromptFactory>& prompt_strategies() {
  static Registry<PromptFactory> table("dataset type", rows());
  return table;
}

std::unique_ptr<PromptStrategy> make_prompt_strategy(const PromptContext& context) {
  DML_CHECK(context.dataset != nullptr);
  const DatasetType& type = context.dataset->type;
  if (type.format) return make_user_format(context);
  if (type.pre_tokenised()) return make_pre_tokenised(context);
  std::string name = type.name;
  if (name.ends_with(".load") && !prompt_strategies().find(name)) name.resize(name.size() - 5);
  if (name.starts_with("sharegpt") && prompt_strategies().find("sharegpt")) name = "sharegpt";
  return prompt_strategies().at(name).make(context);
}

}  // namespace dml
