#include "assembly/prompt_format.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/files.h"
#include "data/example.h"
#include "data/prepare.h"
#include "data/records.h"
#include "prompt/chat_template.h"
#include "prompt/preference.h"
#include "prompt/prompt_only.h"

namespace dml {
namespace {

constexpr std::string_view kProbe = "Xq7 probe", kAnswerProbe = "Yq8 answer", kSystemProbe = "Zq9 system";

// A value as a Jinja expression. JSON's strings are Jinja's.
std::string jinja_literal(const Json& value) {
  if (value.is_null()) return "none";
  if (value.is_array() || value.is_object()) {
    std::string out;
    for (auto& [key, item] : value.items())
      out += (out.empty() ? "" : ", ") + (value.is_object() ? dump(Json(key)) + ": " : "") + jinja_literal(item);
    return value.is_array() ? "[" + out + "]" : "{" + out + "}";
  }
  return dump(value);
}

// The training template, prefixed by the recipe's settings; values of the caller take precedence.
std::string with_settings(const PromptContext& context) {
  const std::string source = choose_chat_template(context).source;
  std::string front;
  for (auto& [key, value] : context.chat_template_kwargs.items())
    front +=
        fmt::format("{{%- if {0} is not defined -%}}{{%- set {0} = {1} -%}}{{%- endif -%}}", key, jinja_literal(value));
  if (!context.default_system_message.empty())
    front += fmt::format(
        "{{%- if messages and messages[0]['role'] != 'system' -%}}{{%- set messages = [{{'role': 'system', 'content': "
        "{}}}] + messages -%}}{{%- endif -%}}",
        jinja_literal(context.default_system_message));
  if (front.empty()) return source;
  // Blanks at the start of the template stay: the newline behind a block is dropped, as trim_blocks says.
  if (source.starts_with(' ') || source.starts_with('\n') || source.starts_with('\t') || source.starts_with('\r'))
    front.replace(front.size() - 3, 3, "%}\n");
  return front + source;
}

// Whether the template makes the tokens of the prompt and, if given, of the turn.
bool makes_same_tokens(const std::string& source, const Rendered& prompt, const std::optional<Rendered>& turn,
                       const Tokenizer& tokenizer) {
  DatasetEntry chat;
  chat.type.name = "chat_template";
  PromptContext context = prompt_context({}, {}, chat, tokenizer);
  context.chat_template = "jinja";
  context.chat_template_jinja = source;
  const auto strategy = make_chat_template(context);
  const auto ids = [&](const Rendered& text) { return assemble(text, tokenizer).ids; };
  Json row = {{"messages", Json::array({Json{{"role", "user"}, {"content", kProbe}}})}};
  if (ids(strategy->prompt(row)) != ids(prompt)) return false;
  row["messages"].push_back({{"role", "assistant"}, {"content", kAnswerProbe}});
  return !turn || ids(strategy->render(row).at(0)) == ids(*turn);
}

// A message's content between what stands around the probe; "" unless the text has the probe exactly once.
std::string around(const std::string& text, std::string_view probe) {
  const auto at = text.find(probe);
  if (at == text.npos || text.find(probe, at + 1) != text.npos) return "";
  const std::string before = text.substr(0, at), after = text.substr(at + probe.size());
  return (before.empty() ? "" : jinja_literal(before) + " + ") + "message['content']" +
         (after.empty() ? "" : " + " + jinja_literal(after));
}

// The expressions that lay out each role's message; an empty one if there is none.
struct MessageExpressions {
  std::string system = "message['content'] + '\\n\\n'", user, assistant = "message['content']";
};

MessageExpressions expressions_of(const PromptStrategy& strategy, const std::string& prompt,
                                  const std::optional<Rendered>& turn, const Tokenizer& tokenizer) {
  MessageExpressions out;
  out.user = around(prompt, kProbe);
  bool ends = tokenizer.eos.has_value();
  if (turn) {
    const std::string text = turn->text();
    if (!text.starts_with(prompt)) return {};
    out.assistant = around(text.substr(prompt.size()), kAnswerProbe);
    ends = ends && turn->segments.back().end_of_text && !text.ends_with(tokenizer.piece(*tokenizer.eos));
    const std::string whole = strategy.turn(kSystemProbe, kProbe, kAnswerProbe)->text();
    if (whole.ends_with(text))
      if (std::string system = around(whole.substr(0, whole.size() - text.size()), kSystemProbe); !system.empty())
        out.system = std::move(system);
  }
  if (ends && !out.assistant.empty()) out.assistant += " + eos_token";
  return out;
}

// A format of prompt and answer as a template: every message is laid out like its text in a row.
std::string from_layout(const PromptStrategy& strategy, const DatasetEntry& dataset, const Tokenizer& tokenizer) {
  Rendered prompt;
  try {
    prompt = strategy.prompt(row_of_prompt(std::string(kProbe), dataset));
  } catch (const UserError&) {
    return "";  // a format that needs more fields than a prompt
  }
  const std::optional<Rendered> turn = strategy.turn("", kProbe, kAnswerProbe);
  const MessageExpressions e = expressions_of(strategy, prompt.text(), turn, tokenizer);
  if (e.user.empty() || e.assistant.empty()) return "";
  const bool bos = tokenizer.bos && tokenizer.adds_bos;
  // Some tokenizers put a space before a text but not after <s>: then the template writes it.
  for (const char* space : {"", " "}) {
    std::string source = fmt::format(
        "{}{{%- for message in messages -%}}\n"
        "  {{%- if message['role'] == 'system' -%}}\n"
        "    {{{{- {} -}}}}\n"
        "  {{%- elif message['role'] == 'user' -%}}\n"
        "    {{{{- {} -}}}}\n"
        "  {{%- else -%}}\n"
        "    {{{{- {} -}}}}\n"
        "  {{%- endif -%}}\n"
        "{{%- endfor -%}}\n",
        bos || *space ? fmt::format("{{{{- {}'{}' -}}}}\n", bos ? "bos_token + " : "", space) : "", e.system, e.user,
        e.assistant);
    if (makes_same_tokens(source, prompt, turn, tokenizer)) return source;
  }
  return "";
}

// The first row of a dataset; nothing where it cannot be read.
std::optional<Json> first_row(const DatasetEntry& dataset) {
  try {
    RowReader reader(find_sources(dataset).front());
    Json row;
    if (RawRow raw; reader.next(raw)) return reader.parse(raw, row), row;
  } catch (const UserError&) {
  }
  return std::nullopt;
}

// Rows of `type: passthrough` are asked as they are trained: messages through the chat template, texts as they are.
// Without the data, the template of the result is that of the training.
DatasetEntry resolved_passthrough(const Recipe& recipe) {
  DatasetEntry out = recipe.data.datasets[0];
  const std::optional<Json> row = first_row(out);
  const std::string saved = recipe.train.output_dir + "/chat_template.jinja";
  if (row ? !holds_messages(*row) : !file_exists(saved)) return out;
  out.type.name = "chat_template";
  if (!row) out.chat_template = "jinja", out.chat_template_jinja = saved;
  return out;
}

// The text between the template's generation prompt and an answer: " " for templates like "ASSISTANT: Hello", "" for
// most.
std::string text_before_answers(const PromptStrategy& strategy, const DatasetEntry& dataset) {
  if (!uses_chat_template(dataset)) return "";
  const std::string answer(kAnswerProbe);
  Json row = row_of_prompt(std::string(kProbe), dataset);
  for (Json* list : {&row[dataset.field_messages], &row["conversations"]}) {
    Json said = (*list)[0];
    for (auto& [key, value] : said.items())
      value = value == kProbe ? Json(answer) : value == "human" ? Json("gpt") : Json("assistant");
    list->push_back(said);
  }
  try {
    const std::string asked = strategy.prompt(row).text();
    const std::vector<Rendered> whole = strategy.render(row);
    const std::string text = whole.empty() ? "" : whole[0].text();
    const auto at = text.find(answer);
    if (at == text.npos || !text.starts_with(asked) || at < asked.size()) return "";
    return text.substr(asked.size(), at - asked.size());
  } catch (const UserError&) {  // the template refuses this conversation
    return "";
  }
}

}  // namespace

DatasetEntry answering_dataset(const Recipe* recipe) {
  if (recipe && !recipe->data.datasets.empty() && !recipe->data.datasets[0].type.pre_tokenized())
    return recipe->data.datasets[0].type.name == kPassthrough ? resolved_passthrough(*recipe)
                                                              : recipe->data.datasets[0];
  DatasetEntry chat;
  chat.type.name = "chat_template";
  return chat;
}

bool uses_chat_template(const DatasetEntry& dataset) { return dataset.type.applies_chat_template(); }

bool is_plain_text(const DatasetEntry& dataset) {
  static constexpr std::array<std::string_view, 3> kPlain{"completion", "pretrain", "text"};
  const std::string name = dataset.type.name.substr(0, dataset.type.name.find('.'));
  return !dataset.type.format && std::ranges::find(kPlain, name) != kPlain.end();
}

bool continues_text(const DatasetEntry& dataset) {
  return is_plain_text(dataset) || (!dataset.type.format && dataset.type.name == "input_output");
}

bool has_chat_template(const Recipe* recipe, const DatasetEntry& dataset, const Tokenizer& tokenizer) {
  auto named_default = [&](auto& entry) { return entry.first == "default"; };
  return dataset.chat_template || dataset.chat_template_jinja ||
         (recipe && (recipe->templates.chat_template || recipe->templates.chat_template_jinja)) ||
         !tokenizer.chat_template.empty() || std::ranges::any_of(tokenizer.named_templates, named_default);
}

AnsweringTemplate::AnsweringTemplate(const Recipe* recipe)
    : data(recipe ? recipe->data : DataSection{}),
      templates(recipe ? recipe->templates : TemplateSection{}),
      dataset(answering_dataset(recipe)) {}

AnsweringTemplate::AnsweringTemplate(const Recipe* recipe, const Tokenizer& tokenizer) : AnsweringTemplate(recipe) {
  if (uses_chat_template(dataset) && !has_chat_template(recipe, dataset, tokenizer)) return;
  strategy = make_prompt_strategy(answering_context(prompt_context(data, templates, dataset, tokenizer)));
  space = text_before_answers(*strategy, dataset) == " ";
}

std::vector<Token> open_text_ids(const Tokenizer& tokenizer, const std::string& text, bool parse_special) {
  std::vector<Token> ids = tokenizer.encode(text, {.add_special = true, .parse_special = parse_special}).ids;
  if (tokenizer.adds_eos && !ids.empty() && tokenizer.eos && ids.back() == *tokenizer.eos) ids.pop_back();
  return ids;
}

void require_rows(const std::vector<Token>& ids, const Tokenizer& tokenizer, std::int64_t vocabulary) {
  for (Token id : ids)
    if (id >= vocabulary)
      throw UserError("token '{}' has id {}, but the model's embedding has {} rows", tokenizer.piece(id), id,
                      vocabulary);
}

std::string portable_chat_template(const Recipe& recipe, const Tokenizer& tokenizer) {
  const DatasetEntry dataset = answering_dataset(&recipe);
  // A reward model reads prompt and answer as one text, in which special tokens are parsed; a template's would not be.
  // A process reward model reads steps, each with its separator.
  const bool judges = recipe.model.task == ModelTask::reward && dataset.type.name == kPassthrough;
  if (continues_text(dataset) || judges || recipe.model.task == ModelTask::process_reward) return "";
  const PromptContext context = answering_context(prompt_context(recipe.data, recipe.templates, dataset, tokenizer));
  if (uses_chat_template(dataset)) return has_chat_template(&recipe, dataset, tokenizer) ? with_settings(context) : "";
  return from_layout(*make_prompt_strategy(context), dataset, tokenizer);
}

}  // namespace dml
