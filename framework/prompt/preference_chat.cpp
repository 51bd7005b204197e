// Rows that are the messages of a prompt and its answers, rendered by a chat template: preferences, and the prompts
// with completions that TRL trains by supervision. Only the answer is trained, with what the template writes after its
// last message: as in Axolotl and TRL, that belongs to the completion whatever train_on_eos says.
#include <algorithm>
#include <utility>
#include <vector>

#include "core/shown.h"
#include "prompt/chat_template.h"
#include "prompt/layout.h"
#include "prompt/preference_chat.h"
#include "prompt/preference_record.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

constexpr const char* kMessagesKey = "messages";
constexpr const char* kTrained = "trained";

// Trains the text after the last trained span, up to the white space at its end.
void train_to_end(Segment& segment) {
  const std::size_t end = segment.text.find_last_not_of(" \t\r\n") + 1;
  const auto last = std::ranges::find(segment.spans.rbegin(), segment.spans.rend(), true, &Segment::Span::trained);
  if (last == segment.spans.rend()) return;
  const float weight = last->weight;
  std::vector<Segment::Span> spans(segment.spans.begin(), last.base());
  for (auto after = last.base(); after != segment.spans.end(); ++after) {
    const std::size_t begin = spans.back().end;
    if (begin < end) spans.push_back({std::min(after->end, end), true, after->markup, weight});
    if (after->end > end) spans.push_back({after->end, false, after->markup});
  }
  segment.spans = std::move(spans);
}

class PreferenceChat : public PromptStrategy {
 public:
  PreferenceChat(const PromptContext& context, ChatPreference fields)
      : fields_(std::move(fields)), rows_(context.rows) {
    DatasetEntry entry = *context.dataset;
    tools_ = entry.field_tools;
    auto property = [&](const char* name) {
      auto found = entry.message_property_mappings.find(name);
      return found == entry.message_property_mappings.end() ? std::string(name) : found->second;
    };
    role_ = property("role");
    content_ = property("content");
    entry.type = {"chat_template", {}};
    entry.field_messages = kMessagesKey;
    entry.message_field_training = kTrained;
    entry.message_columns.clear();
    PromptContext own = context;
    own.dataset = &entry;
    own.train_on_inputs = false;
    chat_ = make_chat_template(own);
  }

  std::vector<Rendered> render(const Json& record) const override {
    if (rows_ == RowKind::text)
      return single(answered(record, prompt_messages(record), fields_.completion, DocumentRole::alone));
    if (rows_ == RowKind::labeled) {
      const bool good = label_column(record, fields_.label);
      return {answered(record, prompt_messages(record), fields_.completion,
                       good ? DocumentRole::desirable : DocumentRole::undesirable)};
    }
    const Json prompt = prompt_messages(record);
    return {answered(record, prompt, fields_.chosen, DocumentRole::chosen),
            answered(record, prompt, fields_.rejected, DocumentRole::rejected)};
  }

  Rendered prompt(const Json& record) const override {
    return chat_->prompt(row(
        record, record.contains(kMessagesKey) ? record[kMessagesKey] : with_system(record, prompt_messages(record))));
  }

  std::string fingerprint() const override {
    const int version = fields_.system.empty() ? 2 : 3;  // 3: prompts that are lists have the system text, too
    return fmt::format("{}|preference chat {}|{}|{}|{}|{}|{}|{}|{}", chat_->fingerprint(), version, fields_.prompt,
                       fields_.system, fields_.chosen, fields_.rejected, fields_.completion, fields_.label,
                       rows_ == RowKind::text      ? "text"
                       : rows_ == RowKind::labeled ? "true"
                                                   : "false");
  }
  std::string description() const override {
    return rows_ == RowKind::pairs
               ? fmt::format("{}; the answers in {} and {}", chat_->description(), fields_.chosen, fields_.rejected)
               : fmt::format("{}; the answer in {}", chat_->description(), fields_.completion);
  }

 private:
  Json message(const char* role, const Json& content, bool trained) const {
    return {{role_, role}, {content_, content}, {kTrained, trained}};
  }

  // A row for chat_: messages, with the tools of the record.
  Json row(const Json& record, Json messages) const {
    Json out{{kMessagesKey, std::move(messages)}};
    if (auto tools = record.find(tools_); tools != record.end()) out[tools_] = *tools;
    return out;
  }

  // Reads messages: a list, one message, or a string, which is one message of `role`.
  Json messages(const Json& value, const std::string& field, const char* role, bool trained) const {
    if (value.is_string()) return Json::array({message(role, value, trained)});
    Json out = value.is_object() ? Json::array({value}) : value;
    if (!out.is_array() || out.empty())
      throw UserError("'{}' must be a string, a message or a list of messages, is {}", field, shown(dump(value), 60));
    for (Json& m : out) {
      if (!m.is_object()) throw UserError("'{}' has an entry that is not a message: {}", field, shown(dump(m), 60));
      m[kTrained] = trained;
    }
    return out;
  }

  // A prompt with the system text of its column, unless it has its own.
  Json with_system(const Json& record, Json prompt) const {
    const bool has_own = !prompt.empty() && prompt[0].contains(role_) && prompt[0][role_] == "system";
    if (fields_.system.empty() || has_own) return prompt;
    if (const std::string system = optional_text_column(record, fields_.system); !system.empty())
      prompt.insert(prompt.begin(), message("system", system, false));
    return prompt;
  }

  // Without a prompt column, the prompt is the common prefix of the two answers.
  Json prompt_messages(const Json& record) const {
    if (auto own = record.find(fields_.prompt); own != record.end() && !own->is_null())
      return messages(*own, fields_.prompt, "user", false);
    if (rows_ != RowKind::pairs) text_column(record, fields_.prompt);  // throws an error that lists the columns
    const Json chosen = messages(list_column(record, fields_.chosen), fields_.chosen, "user", false),
               rejected = messages(list_column(record, fields_.rejected), fields_.rejected, "user", false);
    Json common = Json::array();
    const std::size_t most = std::min(chosen.size(), rejected.size());
    while (common.size() < most && chosen[common.size()] == rejected[common.size()])
      common.push_back(chosen[common.size()]);
    if (common.size() == chosen.size() && common.size() == rejected.size() && !common.empty())
      common.erase(common.size() - 1);  // equal answers: the caller drops the row
    if (common.empty())
      throw UserError("'{}' and '{}' begin with different messages, so they have no prompt in common{}", fields_.chosen,
                      fields_.rejected, prompt_elsewhere(record));
    return common;
  }

  // Names the column in which TRL has the messages of the prompt.
  std::string prompt_elsewhere(const Json& record) const {
    const auto found = record.find("prompt");
    return found != record.end() && found->is_array()
               ? "; for the messages of the column 'prompt': type: chat_template with field_messages: prompt"
               : "";
  }

  // An answer may include the messages of the prompt.
  Json answer_messages(const Json& record, const Json& prompt, const std::string& field) const {
    auto found = record.find(field);
    if (found == record.end() || found->is_null()) throw UserError("'{}' is missing{}", field, looks_like(record));
    Json answer = messages(*found, field, "assistant", true);
    std::size_t repeated = 0;  // messages of the prompt that the answer begins with
    for (; repeated < std::min(answer.size(), prompt.size()); ++repeated) {
      Json read = answer[repeated];
      read[kTrained] = false;
      if (read != prompt[repeated]) break;
    }
    if (repeated == prompt.size() && answer.size() > repeated)
      answer.erase(answer.begin(), answer.begin() + static_cast<std::ptrdiff_t>(repeated));
    else if (repeated > 0 && answer.size() > 1)
      throw UserError(
          "'{}' begins like '{}' but does not contain all of it; if both are whole conversations, use type: "
          "chat_template.argilla, whose prompt is what '{}' and '{}' have in common",
          field, fields_.prompt, fields_.chosen, fields_.rejected);
    return answer;
  }

  Rendered answered(const Json& record, const Json& prompt, const std::string& field, DocumentRole role) const {
    Json all = with_system(record, prompt);
    for (Json& m : answer_messages(record, prompt, field)) all.push_back(std::move(m));
    Rendered out = std::move(chat_->render(row(record, std::move(all))).front());
    train_to_end(out.segments.back());
    out.role = role;
    return out;
  }

  ChatPreference fields_;
  RowKind rows_;
  std::string role_, content_, tools_;
  std::unique_ptr<PromptStrategy> chat_;
};

}  // namespace

std::unique_ptr<PromptStrategy> make_preference_chat(const PromptContext& context, ChatPreference fields) {
  return std::make_unique<PreferenceChat>(context, std::move(fields));
}

}  // namespace dml
