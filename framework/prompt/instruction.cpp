// Instruction formats of two pieces: a prompt, and the answer with its EOS, which are trained. As in Axolotl, they are
// tokenized separately, so no token spans the boundary, unless the format is joint.
#include <algorithm>
#include <utility>

#include "core/closest.h"
#include "core/log.h"
#include "prompt/layout.h"
#include "prompt/strategies.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

class Instruction : public PromptStrategy {
 public:
  Instruction(InstructionFormat format, bool train_on_inputs)
      : format_(std::move(format)),
        train_on_inputs_(train_on_inputs),
        system_(format_.system_layout, "system_format"),
        without_input_(format_.without_input, "no_input_format"),
        with_input_(format_.with_input, "format"),
        answer_(format_.answer, "answer") {}

  std::vector<Rendered> render(const Json& record) const override {
    std::vector<Rendered> out;
    render_into(out, record);
    return out;
  }
  void render_into(std::vector<Rendered>& out, const Json& record) const override {
    Json filled;
    const Json& row = lenient(record, filled);
    out.resize(1);
    auto& segments = out.front().segments;
    segments.resize(format_.joint ? 1 : 2);
    for (Segment& segment : segments) segment.clear();
    lay_prompt(row, segments.front());
    Segment& answer = segments.back();
    answer_.render(row, true, answer);
    answer.end_of_text = answer.end_trained = true;
    answer.ends = format_.ends;
  }

  Rendered prompt(const Json& record) const override {
    Json row = record;
    auto columns = without_input_.columns();
    if (!columns.empty() && !row.contains(columns.back()) && row.contains("prompt"))
      row[columns.back()] = row["prompt"];
    Json filled;
    Rendered out;
    lay_prompt(lenient(row, filled), out.segments.emplace_back());
    return out;
  }

  void add_answer(Rendered& prompt, std::string_view answer) const override {
    if (!format_.joint) prompt.segments.emplace_back();
    prompt.segments.back().add_read(answer);
  }
  std::string fingerprint() const override {
    return fmt::format("instruction 1|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", format_.without_input, format_.with_input,
                       format_.answer, format_.input, format_.system_column, format_.system_default,
                       format_.system_layout, format_.joint, format_.ends, train_on_inputs_);
  }

  std::string description() const override {
    return fmt::format("{}: {}; {}", format_.name, format_.help,
                       train_on_inputs_ ? "trains on prompts and answers" : "trains on answers");
  }

 private:
  void lay_prompt(const Json& row, Segment& segment) const {
    segment.add_special = true;
    if (!format_.system_layout.empty()) {
      std::string system = row.contains(format_.system_column) ? optional_text_column(row, format_.system_column)
                                                               : format_.system_default;
      if (!system.empty()) system_.render(Json{{"system", system}}, train_on_inputs_, segment);
    }
    bool input = !format_.with_input.empty() && has_input(row);
    (input ? with_input_ : without_input_).render(row, train_on_inputs_, segment);
  }

  bool has_input(const Json& row) const {
    auto it = row.find(format_.input);
    if (it == row.end() || it->is_null()) return false;
    return it->is_array() ? !it->empty() : !text_column(row, format_.input).empty();
  }

  // In custom formats a null counts as empty.
  const Json& lenient(const Json& record, Json& filled) const {
    if (!format_.lenient) return record;
    filled = record;
    for (auto* layout : {&without_input_, &with_input_, &answer_})
      for (auto& column : layout->columns())
        if (const auto found = filled.find(column); found != filled.end() && found->is_null()) *found = "";
    return filled;
  }

  InstructionFormat format_;
  bool train_on_inputs_;
  Layout system_, without_input_, with_input_, answer_;
};

std::string renamed(std::string layout, const std::string& from, const std::string& to) {
  const std::string old = "{" + from + "}", replacement = "{" + to + "}";
  for (auto at = layout.find(old); at != std::string::npos; at = layout.find(old, at + replacement.size()))
    layout.replace(at, old.size(), replacement);
  return layout;
}

void warn_about_end(const InstructionFormat& format, const std::string& eos) {
  for (const char* end : {"<|im_end|>", "<|end|>"})
    if (format.without_input.find(end) != std::string::npos && !eos.empty() && eos != end) {
      log_warning(
          "{}: answers end with the tokenizer's eos {}, not with {}; set `special_tokens: {{eos_token: \"{}\"}}` "
          "if the model should stop at {}",
          format.name, eos, end, end, end);
      return;
    }
}

}  // namespace

std::unique_ptr<PromptStrategy> make_instruction(const InstructionFormat& format, const PromptContext& context) {
  warn_about_end(format, context.eos_token);
  return std::make_unique<Instruction>(format, context.train_on_inputs);
}

std::unique_ptr<PromptStrategy> make_user_format(const PromptContext& context) {
  const PromptFormat& user = *context.dataset->type.format;
  auto check = [](const std::string& text, const char* key, std::vector<std::string> allowed) {
    for (auto& column : Layout(text, key).columns())
      if (std::find(allowed.begin(), allowed.end(), column) == allowed.end())
        throw UserError("{}: unknown placeholder {{{}}}{}; write {{{{ and }}}} for braces", key, column,
                        did_you_mean(column, allowed));
  };
  check(user.format, "format", {"instruction", "input"});
  check(user.no_input_format, "no_input_format", {"instruction"});
  check(user.system_format, "system_format", {"system"});
  for (auto* field : {&user.field_instruction, &user.field_input, &user.field_output, &user.field_system})
    if (field->empty() || field->find_first_of("{}|%[]") != std::string::npos)
      throw UserError("type: '{}' is not a column name", *field);

  // Replaces both placeholders in one pass, so that a column may be named like the other placeholder.
  auto columns = [&](std::string layout) {
    layout = renamed(renamed(std::move(layout), "instruction", "\x01"), "input", "\x02");
    return renamed(renamed(std::move(layout), "\x01", user.field_instruction), "\x02", user.field_input);
  };
  InstructionFormat format;
  format.name = "own format";
  format.help = fmt::format("{}, {}?, {}", user.field_instruction, user.field_input, user.field_output);
  if (const PromptFormat unset; user.format != unset.format && user.no_input_format == unset.no_input_format)
    log_warning(
        "type: `format` is for rows with an '{}'; rows without one are laid out by no_input_format, which is '{}' "
        "unless it is set",
        user.field_input, user.no_input_format);
  format.with_input = columns(user.format);
  format.without_input = columns(user.no_input_format);
  format.answer = "{" + user.field_output + "}";
  format.input = user.field_input;
  format.system_column = user.field_system;
  format.system_default = user.system_prompt;
  format.system_layout = user.system_format;
  format.lenient = true;
  return std::make_unique<Instruction>(std::move(format), context.train_on_inputs);
}

}  // namespace dml
