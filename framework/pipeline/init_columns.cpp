#include "pipeline/init_columns.h"

#include <algorithm>

#include "core/closest.h"
#include "core/error.h"
#include "pipeline/init_messages.h"
#include "pipeline/init_table.h"
#include "prompt/conversation_json.h"

namespace dml {
namespace {

using Names = std::vector<std::string>;

// SampledColumn names, the preferred ones first.
const Names kUser{"instruction", "question", "prompt",  "query", "user",    "input",
                  "human",       "request",  "problem", "frage", "message", "question_text"};
const Names kAssistant{"output",     "answer", "response", "completion", "reply",   "assistant",  "solution",
                       "generation", "target", "bot",      "gpt",        "antwort", "answer_text"};
const Names kContext{"input", "context"};
const Names kSystem{"system", "system_prompt", "system_message"};
const Names kText{"text", "content", "body", "document", "article", "passage", "story"};
const Names kConversations{"messages", "conversations", "conversation", "chat_messages",
                           "dialog",   "dialogue",      "turns",        "chat"};
const Names kPromptLists{"messages", "prompt"};  // beside conversations that were compared

class Finder {
 public:
  Finder(DataFacts& facts, const ColumnHints& hints)
      : facts_(facts), hints_(hints), columns_(columns_of(facts.sample)) {}

  void find() {
    if (!hints_.empty()) take_hints();
    else if (!(chatgpt() || tokens() || preference() || conversation() || segments() || question_and_answer() ||
               text() || by_count()))
      throw UserError(
          "{}: cannot tell what its columns mean: {}; name them with --user COLUMN --assistant COLUMN, or --text "
          "COLUMN",
          facts_.entry.path, fmt::join(names_of(columns_), ", "));
    const bool pairs = hints_.empty() && column("chosen") && column("rejected");
    if (hints_.chosen_only && !pairs)
      throw UserError(
          "{}: --chosen-only is for pairs of answers (columns 'chosen' and 'rejected'), without --user, --assistant "
          "and --text; leave it out",
          facts_.entry.path);
  }

 private:
  const SampledColumn* column(const std::string& plain) const {
    for (auto& c : columns_)
      if (c.plain == plain) return &c;
    return nullptr;
  }
  /// The first of these names that is a column of texts, or with another count above 0.
  const SampledColumn* first_of(const Names& names, const SampledColumn* but = nullptr,
                                std::int64_t SampledColumn::*count = &SampledColumn::filled) const {
    for (auto& name : names)
      if (const SampledColumn* c = column(name); c && c != but && c->*count > 0) return c;
    return nullptr;
  }
  std::string exact(const std::string& name) const {
    for (auto& c : columns_)
      if (c.name == name) return name;
    for (auto& c : columns_)
      if (c.plain == plain_name(name)) return c.name;
    throw UserError("{}: there is no column '{}'{}", facts_.entry.path, name, did_you_mean(name, names_of(columns_)));
  }

  void take_hints() {
    if (hints_.text) {
      if (!hints_.user.empty() || hints_.assistant || hints_.system)
        throw UserError("--text is for documents; leave it out, or leave out --user, --assistant and --system");
      return documents(exact(*hints_.text));
    }
    if (hints_.user.empty() || !hints_.assistant)
      throw UserError("{}", hints_.system ? "--system requires both --user and --assistant"
                                          : "--user and --assistant are needed together");
    auto& columns = facts_.entry.message_columns;
    for (auto& name : hints_.user) columns["user"].push_back(exact(name));
    columns["assistant"] = {exact(*hints_.assistant)};
    if (hints_.system) columns["system"] = {exact(*hints_.system)};
    by_columns();
  }

  bool chatgpt() {
    for (const Json& row : facts_.sample)
      if (!row.contains("mapping") || !row["mapping"].is_object()) return false;
    facts_.entry.type.name = "chat_template.chatgpt";
    facts_.contents = "conversations exported from ChatGPT";
    return true;
  }

  bool tokens() {
    for (const Json& row : facts_.sample)
      if (!row.contains("input_ids") || !row["input_ids"].is_array()) return false;
    facts_.kind = DataKind::tokens;
    facts_.contents = "rows that are token ids already";
    return true;
  }

  bool preference() {
    refuse_steps();
    const SampledColumn *chosen = column("chosen"), *rejected = column("rejected"), *label = column("label");
    if (chosen && rejected) return hints_.chosen_only ? chosen_alone(*chosen) : pairs(*chosen, *rejected);
    const SampledColumn* completion = first_of(kAssistant);
    if (!completion) completion = first_of(kAssistant, nullptr, &SampledColumn::lists);
    if (!label || label->labels == 0 || label->others > 0 || !completion) return false;
    return labeled(*completion, *label);
  }

  // Pairs: a preferred and a rejected answer, each a text, a message or a conversation that may begin with the prompt.
  bool pairs(const SampledColumn& chosen, const SampledColumn& rejected) {
    DatasetEntry& e = facts_.entry;
    const SampledColumn* prompt =
        chosen.lists > 0 ? first_of(kPromptLists, nullptr, &SampledColumn::lists) : turns_before(chosen);
    if (chosen.lists + chosen.objects > 0 || prompt) {
      Names columns;
      for (const SampledColumn* c : {chosen.lists + chosen.objects > 0 ? &chosen : nullptr, prompt})
        if (c) columns.push_back(c->name);
      if (!find_messages(facts_, columns, chosen.texts > 0)) return false;
    }
    if (!prompt && chosen.lists == 0) prompt = prompt_beside(&chosen);
    const bool whole = prompt && chosen.lists > 0 && holds_answers(*prompt, chosen);
    if (whole) prompt = nullptr;
    e.type.name = whole ? "chat_template.argilla" : "chat_template";
    e.field_messages = prompt ? prompt->name : DatasetEntry().field_messages;
    e.field_chosen = chosen.name;
    e.field_rejected = rejected.name;
    facts_.rl = Rl::dpo;
    facts_.contents = fmt::format("pairs of answers, {}{}chosen: {}, rejected: {}", take_system(),
                                  prompt ? fmt::format("prompt: {}, ", prompt->name) : "", chosen.name, rejected.name);
    return true;
  }

  // The system text of preferences in a column of its own; returns how the contents name it.
  std::string take_system() {
    const SampledColumn* system = first_of(kSystem);
    if (!system) return "";
    facts_.entry.field_system = system->name;
    return fmt::format("system: {}, ", system->name);
  }

  // Steps of solutions, each with a label, for process reward models.
  void refuse_steps() const {
    const auto is_list = [&](const char* name) {
      return std::ranges::all_of(facts_.sample, [&](const Json& row) { return row.value(name, Json()).is_array(); });
    };
    if (is_list("completions") && is_list("labels"))
      throw UserError(
          "{}: 'completions' and 'labels' are steps for a process reward model, for which dml init writes no recipe; "
          "write one with process_reward_model: true and type: stepwise_supervised (docs/preferences.md)",
          facts_.entry.path);
  }

  // Whether a column of messages is more than the prompt, as in UltraFeedback, where `messages` repeats `chosen`.
  bool holds_answers(const SampledColumn& messages, const SampledColumn& chosen) const {
    return std::ranges::any_of(facts_.sample, [&](const Json& row) {
      const Json given = row.value(messages.name, Json()), answer = row.value(chosen.name, Json());
      if (!given.is_array() || !answer.is_array() || given.empty() || answer.empty()) return false;
      return given[0] == answer[0] && given.size() >= answer.size();
    });
  }

  // The conversation that an answer continues, where it is a list of messages; a prompt that is a text comes first.
  const SampledColumn* turns_before(const SampledColumn& answer) const {
    if (first_of(kUser, &answer)) return nullptr;
    for (const Names& names : {kPromptLists, kConversations})
      if (const SampledColumn* c = first_of(names, &answer, &SampledColumn::lists)) return c;
    return nullptr;
  }

  bool labeled(const SampledColumn& completion, const SampledColumn& label) {
    if (hints_.chosen_only)
      throw UserError(
          "{}: --chosen-only needs a column of chosen answers; keep the rows whose '{}' is true in a file of their own",
          facts_.entry.path, label.name);
    if (completion.name != "completion" || label.name != "label")
      throw UserError(
          "{}: answers with a label (rl: kto) need the columns 'completion' and 'label'; here they are '{}' and '{}'",
          facts_.entry.path, completion.name, label.name);
    const SampledColumn* prompt = first_of(kPromptLists, nullptr, &SampledColumn::lists);
    if (!prompt) prompt = prompt_beside(&completion);
    const Names lists = lists_among({prompt, &completion});
    if (!lists.empty() && !find_messages(facts_, lists, completion.texts > 0)) return false;
    facts_.entry.type.name = "chat_template";
    facts_.entry.field_messages = prompt->name;
    facts_.rl = Rl::kto;
    facts_.contents = fmt::format("answers with a label, {}prompt: {}, completion, label", take_system(), prompt->name);
    return true;
  }

  static Names lists_among(std::initializer_list<const SampledColumn*> columns) {
    Names out;
    for (const SampledColumn* c : columns)
      if (c->lists > 0) out.push_back(c->name);
    return out;
  }

  const SampledColumn* prompt_beside(const SampledColumn* answer) const {
    const SampledColumn* prompt = first_of(kUser, answer);
    if (!prompt)
      throw UserError("{}: cannot tell which column holds the prompt: {}; rename it to 'prompt'", facts_.entry.path,
                      fmt::join(names_of(columns_), ", "));
    return prompt;
  }

  bool chosen_alone(const SampledColumn& chosen) {
    if (chosen.objects > 0)
      throw UserError(
          "{}: --chosen-only needs answers that are texts or whole conversations; '{}' holds single messages",
          facts_.entry.path, chosen.name);
    if (chosen.lists > 0) {
      facts_.notes.emplace_back("preference data: only the chosen conversations are trained on");
      return find_messages(facts_, {chosen.name});
    }
    facts_.notes.emplace_back("preference data: only the chosen answers are trained on");
    facts_.entry.message_columns = {{"user", {prompt_beside(&chosen)->name}}, {"assistant", {chosen.name}}};
    if (const SampledColumn* system = first_of(kSystem)) facts_.entry.message_columns["system"] = {system->name};
    by_columns();
    return true;
  }

  bool conversation() {
    if (prompt_and_completion()) return true;
    if (!whole_conversation()) return false;
    if (const SampledColumn* label = column("label"); label && label->labels > 0 && label->others == 0)
      facts_.notes.push_back(fmt::format(
          "'{}' is not read: the recipe trains on all answers, true or false; for rl: kto, move the last message of "
          "each row to a column 'completion'",
          label->name));
    return true;
  }

  bool whole_conversation() {
    for (const std::string& usual : kConversations)
      if (const SampledColumn* c = column(usual); c && c->lists + c->list_texts > 0 && find_messages(facts_, {c->name}))
        return true;
    for (auto& c : columns_)
      if (c.lists + c.list_texts > 0 && find_messages(facts_, {c.name})) return true;
    return false;
  }

  // Both, or only the completion, are lists of messages.
  bool prompt_and_completion() {
    const SampledColumn *prompt = column("prompt"), *completion = column("completion");
    if (!prompt || !completion || completion->lists == 0 || prompt->lists + prompt->filled == 0 ||
        !find_messages(facts_, lists_among({completion, prompt})))
      return false;
    facts_.entry.type.name = "chat_template.prompt_completion";
    facts_.entry.field_messages = DatasetEntry().field_messages;
    facts_.contents = "prompts and completions that are messages; the completions are trained";
    return true;
  }

  bool segments() {
    const SampledColumn* c = column("segments");
    if (!c || c->lists == 0) return false;
    facts_.entry.type.name = "input_output";
    facts_.contents = "segments of text, each trained on or only read";
    return true;
  }

  bool question_and_answer() {
    const SampledColumn* assistant = first_of(kAssistant);
    if (!assistant && !is_choice()) assistant = first_of(kAssistant, nullptr, &SampledColumn::scalars);
    const SampledColumn* user = assistant ? first_of(kUser, assistant) : nullptr;
    if (!user) return false;
    auto& columns = facts_.entry.message_columns;
    columns["user"] = {user->name};
    if (user->plain == "instruction" || user->plain == "question")
      if (const SampledColumn* context = first_of(kContext, assistant); context && context != user)
        columns["user"].push_back(context->name);
    columns["assistant"] = {assistant->name};
    if (const SampledColumn* system = first_of(kSystem)) columns["system"] = {system->name};
    by_columns();
    return true;
  }

  // Whether an answer may be the number of one of several choices, which the question does not show.
  bool is_choice() const { return column("choices") || column("options"); }

  void by_columns() {
    facts_.entry.type.name = "chat_template";
    Names shown;
    for (const char* role : {"system", "user", "assistant"})
      if (auto c = facts_.entry.message_columns.find(role); c != facts_.entry.message_columns.end())
        shown.push_back(fmt::format("{}: {}", role, fmt::join(c->second, " + ")));
    facts_.contents = fmt::format("{}", fmt::join(shown, ", "));
    auto& columns = facts_.entry.message_columns;
    const auto half = std::ranges::count_if(facts_.sample, [&](const Json& row) {
      return is_blank(row.value(columns["assistant"][0], Json())) || is_blank(row.value(columns["user"][0], Json()));
    });
    const char* then = 2 * half > std::ssize(facts_.sample) ? "half of the rows must have both" : "they are left out";
    if (half > 0)
      facts_.notes.push_back(fmt::format("{} of the {} rows that were examined have no question or no answer; {}", half,
                                         facts_.sample.size(), then));
  }

  bool text() {
    const SampledColumn* c = first_of(kText);
    if (!c) return false;
    documents(c->name);
    return true;
  }

  void documents(const std::string& name) {
    facts_.kind = DataKind::documents;
    facts_.entry.type.name = "completion";
    if (name != "text") facts_.entry.field = name;
    facts_.contents = facts_.entry.ds_type == "document" ? "documents" : fmt::format("documents in '{}'", name);
  }

  // Two columns of texts with unknown names are question and answer; a single one is text.
  bool by_count() {
    std::vector<const SampledColumn*> texts;
    for (auto& c : columns_)
      if (c.filled * 2 > static_cast<std::int64_t>(facts_.sample.size())) texts.push_back(&c);
    const bool answers = std::ranges::any_of(kAssistant, [&](const std::string& name) { return column(name); });
    if (texts.size() == 1 && answers && texts[0] != first_of(kAssistant)) return false;  // that is a question
    if (texts.size() == 1) {
      documents(texts[0]->name);
    } else if (texts.size() == 2) {
      facts_.entry.message_columns = {{"user", {texts[0]->name}}, {"assistant", {texts[1]->name}}};
      by_columns();
    } else {
      return false;
    }
    facts_.notes.emplace_back(
        "the columns' names say nothing of their use; if this guess is wrong: --user COLUMN --assistant COLUMN, or "
        "--text COLUMN");
    return true;
  }

  DataFacts& facts_;
  const ColumnHints& hints_;
  std::vector<SampledColumn> columns_;
};

}  // namespace

void detect_columns(DataFacts& facts, const ColumnHints& hints) { Finder(facts, hints).find(); }

}  // namespace dml
