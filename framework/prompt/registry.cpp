// The table of prompt strategies: every `type:` of a dataset.
#include "core/log.h"
#include "prompt/chat_template.h"
#include "prompt/preference.h"
#include "prompt/preference_chat.h"
#include "prompt/prompt_only.h"
#include "prompt/stepwise.h"
#include "prompt/strategies.h"
#include "prompt/strategy.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

std::unique_ptr<PromptStrategy> make_chat(const PromptContext& context) {
  const bool columns = context.dataset && !context.dataset->message_columns.empty();
  auto strategy = columns ? make_column_chat(context) : make_chat_template(context);
  for (auto& warning : chat_template_warnings(context)) log_warning("{}", warning);
  return strategy;
}

std::unique_ptr<PromptStrategy> make_completion_chat(const PromptContext& context) {
  auto strategy = make_preference_chat(context, {});
  for (auto& warning : chat_template_warnings(context)) log_warning("{}", warning);
  return strategy;
}

std::unique_ptr<PromptStrategy> make_chatgpt_chat(const PromptContext& context) {
  auto strategy = make_chatgpt(context);
  for (auto& warning : chat_template_warnings(context)) log_warning("{}", warning);
  return strategy;
}

// Conversations with sharegpt's keys, unless the dataset sets others.
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

// The keys of an entry that are set, but not read.
class IdleKeys {
 public:
  void check(const char* key, bool set, bool used) {
    if (set && !used) idle_.emplace_back(key);
  }
  void warn(const DatasetEntry& e, const std::string& type) const {
    if (!idle_.empty()) log_warning("{}: {} has no effect with {}", e.path, fmt::join(idle_, ", "), type);
  }

 private:
  std::vector<std::string> idle_;
};

// Keys of texts, conversations and instructions, of which preferences read some.
void check_keys_of_rows(const DatasetEntry& e, RowKind rows, IdleKeys& idle) {
  const std::string& name = e.type.name;
  const bool format = e.type.format.has_value(), text = rows == RowKind::text;
  const bool through_template = e.type.applies_chat_template();
  // Rows of passthrough may hold messages.
  const bool chat =
      text ? through_template
           : rows != RowKind::steps && !format && (through_template || name.empty() || name == kPassthrough);
  const bool prompt = chat && (text || name == "chat_template" || name == "chat_template.default");
  const bool trained = chat && text;  // of preferences, the answer is trained
  const bool plain_text = text && !format && (name.starts_with("completion") || name == "text" || name == "pretrain");
  const DatasetEntry plain;
  idle.check("chat_template", e.chat_template.has_value(), chat);
  idle.check("chat_template_jinja", e.chat_template_jinja.has_value(), chat);
  idle.check("field_messages", e.field_messages != plain.field_messages, prompt);
  idle.check("message_property_mappings", e.message_property_mappings != plain.message_property_mappings, chat);
  idle.check("message_columns", !e.message_columns.empty(), trained);
  idle.check("field_tools", e.field_tools != plain.field_tools, chat);
  idle.check("field_system", e.field_system.has_value(), through_template && rows != RowKind::steps);
  idle.check("field_thinking", e.field_thinking.has_value(), chat);
  idle.check("template_thinking_key", e.template_thinking_key != plain.template_thinking_key, chat);
  idle.check("roles", e.roles.has_value(), chat);
  idle.check("roles_to_train", e.roles_to_train != plain.roles_to_train, trained);
  idle.check("train_on_turns", e.train_on_turns != plain.train_on_turns, chat);
  idle.check("train_on_eos", e.train_on_eos != plain.train_on_eos, trained);
  idle.check("train_on_eot", e.train_on_eot.has_value(), trained);
  idle.check("message_field_training", e.message_field_training.has_value(), trained);
  idle.check("message_field_training_detail", e.message_field_training_detail.has_value(), trained);
  idle.check("drop_system_message", e.drop_system_message, chat);
  idle.check("split_thinking", e.split_thinking, chat);
  idle.check("field", e.field.has_value(), plain_text);
  idle.check("text_column", e.text_column.has_value(), plain_text);
}

// Warns about keys that the type does not read.
void warn_of_idle_keys(const DatasetEntry& e, RowKind rows) {
  const bool pairs = rows == RowKind::pairs, pairs_of_messages = pairs && e.type.applies_chat_template(),
             steps = rows == RowKind::steps;
  const DatasetEntry plain;
  IdleKeys idle;
  check_keys_of_rows(e, rows, idle);
  idle.check("field_chosen", e.field_chosen != plain.field_chosen, pairs_of_messages);
  idle.check("field_rejected", e.field_rejected != plain.field_rejected, pairs_of_messages);
  idle.check("field_margin", e.field_margin != plain.field_margin, pairs);
  idle.check("step_separator", e.step_separator != plain.step_separator, steps);
  idle.check("max_completion_length", e.max_completion_length.has_value(), steps);
  idle.check("train_on_last_step_only", e.train_on_last_step_only, steps);
  idle.warn(e, e.type.format                                     ? "a custom format"
               : e.type.pre_tokenized() && rows == RowKind::text ? "tokenized rows"
               : e.type.name.empty() && steps                    ? "type: stepwise_supervised"
               : e.type.name.empty()                             ? std::string("type: ") + kPassthrough
                                                                 : "type: " + e.type.name);
}

std::vector<Registry<PromptFactory>::Row> rows() {
  std::vector<Registry<PromptFactory>::Row> out;
  for (auto& format : instruction_formats())
    out.push_back(
        {format.name, format.help, [&format](const PromptContext& c) { return make_instruction(format, c); }});
  out.push_back({"completion", "text (or `field`): plain text, trained in full", make_completion});
  out.push_back({"pretrain", "text (or `text_column`): plain text, trained in full", make_completion});
  out.push_back({"text", "text: plain text, trained in full", make_completion});
  out.push_back({"input_output", "segments of {text, label}: no template", make_input_output});
  out.push_back({"pygmalion", "conversations of {role: system|human|bot, value}", make_pygmalion});
  out.push_back(
      {"llama2_chat", "conversations of {from: system|human|gpt, value} between [INST] and [/INST]", make_llama2_chat});
  out.push_back({"chat_template", "messages of {role, content} through a chat template", make_chat});
  out.push_back(
      {"chat_template.chatgpt", "conversations.json of a ChatGPT export, through a chat template", make_chatgpt_chat});
  out.push_back({"chat_template.prompt_completion",
                 "prompt, completion: texts or lists of messages, through a chat template; trains the completion",
                 make_completion_chat});
  out.push_back({"openai", "the same as chat_template: messages, tools", make_chat});
  out.push_back({"sharegpt", "conversations of {from, value} through a chat template", make_sharegpt});
  return out;
}

}  // namespace

Registry<PromptFactory>& prompt_strategies() {
  static Registry<PromptFactory> table("dataset type", rows());
  return table;
}

namespace {

const Registry<PromptFactory>::Row& row_of(std::string name) {
  if (name.ends_with(".load") && !prompt_strategies().find(name)) name.resize(name.size() - 5);
  if (name.starts_with("sharegpt") && prompt_strategies().find("sharegpt")) name = "sharegpt";
  if (const std::string rl = rl_of_type(name); !rl.empty() && !prompt_strategies().find(name))
    throw UserError("dataset type '{}' is for preference data and needs {}", name, rl);
  return prompt_strategies().at(name);
}

}  // namespace

void check_prompt_type(const DatasetType& type, RowKind rows) {
  if (rows == RowKind::prompts) return check_prompt_only_type(type);
  if (rows == RowKind::steps) return check_stepwise_type(type);
  if (rows != RowKind::text) return check_preference_type(type, rows);
  if (!type.format && !type.pre_tokenized()) row_of(type.name);
}

std::unique_ptr<PromptStrategy> make_prompt_strategy(const PromptContext& context) {
  DML_CHECK(context.dataset != nullptr);
  const DatasetType& type = context.dataset->type;
  if (context.rows == RowKind::prompts) return make_prompt_only(context);
  if (context.trains) warn_of_idle_keys(*context.dataset, context.rows);
  if (context.rows == RowKind::steps) return make_stepwise(context);
  if (context.rows != RowKind::text) return make_preference_strategy(context);
  if (type.format) return make_user_format(context);
  if (type.pre_tokenized()) return make_pre_tokenized(context);
  return row_of(type.name).make(context);
}

}  // namespace dml
