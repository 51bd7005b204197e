// Preference rows of strings: prompt and answers are columns, laid out in a frame (chatml, llama3, none).
#include <algorithm>
#include <utility>

#include "core/closest.h"
#include "prompt/layout.h"
#include "prompt/preference_record.h"
#include "prompt/preference_text.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

class PreferenceText : public PromptStrategy {
 public:
  explicit PreferenceText(PreferenceFormat format)
      : format_(std::move(format)),
        system_(format_.frame.system, "system"),
        prompt_(format_.frame.prompt, "prompt_format"),
        prompt_field_(FieldPath::parse(format_.prompt)) {
    for (const PreferenceAnswer& answer : format_.answers)
      answers_.push_back({FieldPath::parse(answer.field), Layout(answer.layout, answer.key), answer.role});
  }

  std::vector<Rendered> render(const Json& record) const override {
    std::vector<Rendered> out;
    for (const Answer& answer : answers_) {
      Rendered& made = out.emplace_back(Rendered{{lay_prompt(record, prompt_field_.text(record))}});
      lay_answer(answer, answer.field.text(record), made.segments.front());
      made.role = answer.role;
      if (answer.role == DocumentRole::desirable && !label_column(record, format_.label))
        made.role = DocumentRole::undesirable;
    }
    return out;
  }

  // A question that is no row of the format has its text in `prompt`.
  Rendered prompt(const Json& record) const override {
    const bool question = !prompt_field_.in(record) && record.contains("prompt");
    return {{lay_prompt(record, question ? text_column(record, "prompt") : prompt_field_.text(record))}};
  }

  std::optional<Rendered> turn(std::string_view system, std::string_view prompt,
                               std::string_view answer) const override {
    Rendered out{{lay_prompt(Json{{format_.system, system}}, std::string(prompt))}};
    lay_answer(answers_.front(), std::string(answer), out.segments.front());
    return out;
  }

  void add_answer(Rendered& prompt, std::string_view answer) const override {
    prompt.segments.back().add(answer, false, format_.frame.literal);
  }
  std::string fingerprint() const override {
    std::string out =
        fmt::format("preference 1|{}|{}|{}|{}|{}|{}|{}", format_.prompt, format_.system, format_.label,
                    format_.frame.system, format_.frame.prompt, format_.frame.ends_text, format_.frame.literal);
    for (const PreferenceAnswer& a : format_.answers) out += fmt::format("|{}|{}", a.field, a.layout);
    return out;
  }

  std::string description() const override {
    std::string fields;
    for (const Answer& answer : answers_) fields += fmt::format(", {}", answer.field.name());
    return fmt::format("{}: {}{}; trains on answers", format_.name, prompt_field_.name(), fields);
  }

 private:
  struct Answer {
    FieldPath field;
    Layout layout;
    DocumentRole role;
  };
  static const char* answer_name(DocumentRole role) {
    return role == DocumentRole::chosen ? "chosen" : role == DocumentRole::rejected ? "rejected" : "completion";
  }

  Segment lay_prompt(const Json& record, const std::string& text) const {
    Segment segment;
    segment.add_special = true;
    const std::string system = optional_text_column(record, format_.system);
    if (!system.empty()) system_.render(Json{{"system", system}}, false, segment);
    // The row contains the whole text with its special tokens.
    if (format_.frame.literal) segment.add_markup(text);
    else prompt_.render(Json{{"prompt", text}, {"system", system}}, false, segment);
    return segment;
  }

  void lay_answer(const Answer& answer, const std::string& text, Segment& segment) const {
    if (format_.frame.literal) segment.add(text, true, true);
    else answer.layout.render(Json{{answer_name(answer.role), text}}, true, segment);
    segment.end_of_text = segment.end_trained = format_.frame.ends_text;
  }

  PreferenceFormat format_;
  Layout system_, prompt_;
  FieldPath prompt_field_;
  std::vector<Answer> answers_;
};

void check_placeholders(const std::string& layout, const char* key, const std::vector<std::string>& allowed) {
  for (auto& column : Layout(layout, key).columns())
    if (std::ranges::find(allowed, column) == allowed.end())
      throw UserError("{}: unknown placeholder {{{}}}{}; write {{{{ and }}}} for braces", key, column,
                      did_you_mean(column, allowed));
}

}  // namespace

std::unique_ptr<PromptStrategy> make_preference_text(PreferenceFormat format) {
  return std::make_unique<PreferenceText>(std::move(format));
}

std::unique_ptr<PromptStrategy> make_user_preference(const PromptContext& context) {
  const PromptFormat& user = *context.dataset->type.format;
  check_placeholders(user.prompt_format, "prompt_format", {"prompt", "system"});
  PreferenceFormat format;
  format.name = "own format";
  format.prompt = user.field_prompt;
  format.system = user.prompt_format.find("{system}") == std::string::npos ? "" : user.field_system;
  format.frame.prompt = user.prompt_format;
  auto answer = [&](const std::string& field, const std::string& layout, const char* key, const char* name,
                    DocumentRole role) {
    check_placeholders(layout, key, {name});
    format.answers.push_back({field, layout, key, role});
  };
  if (context.rows == RowKind::labeled) {
    format.label = user.field_label;
    answer(user.field_completion, user.completion_format, "completion_format", "completion", DocumentRole::desirable);
  } else {
    answer(user.field_chosen, user.chosen_format, "chosen_format", "chosen", DocumentRole::chosen);
    answer(user.field_rejected, user.rejected_format, "rejected_format", "rejected", DocumentRole::rejected);
  }
  return make_preference_text(std::move(format));
}

}  // namespace dml
