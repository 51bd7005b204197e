// The tables of preference formats: every `type:` of a dataset in a recipe with rl.
#include "prompt/preference.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/log.h"
#include "prompt/chat_template.h"
#include "prompt/preference_chat.h"
#include "prompt/preference_text.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

struct NamedFrame {
  std::string name;
  PreferenceFrame frame;
  std::string answer_end;
};

const std::vector<NamedFrame>& frames() {
  static const std::vector<NamedFrame> all = {
      {"chatml",
       {"<|im_start|>system\n{system}<|im_end|>\n", "<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n",
        false},
       "<|im_end|>"},
      {"llama3",
       {"<|start_header_id|>system<|end_header_id|>\n\n{system}<|eot_id|>",
        "<|start_header_id|>user<|end_header_id|>\n\n{prompt}<|eot_id|><|start_header_id|>assistant<|end_header_id|>"
        "\n\n",
        false},
       "<|eot_id|>"},
  };
  return all;
}

// The columns of a format, which exists in each frame.
struct Source {
  const char *name, *prompt, *chosen, *rejected;
  bool system = true;
};

const std::vector<Source>& pair_sources() {
  static const std::vector<Source> all = {
      {"default", "prompt|input|question|instruction", "chosen|chosen_response", "rejected|rejected_response"},
      {"argilla", "prompt|input|question|instruction", "chosen|chosen_response", "rejected|rejected_response"},
      {"argilla_chat", "chosen[0]", "chosen[1]", "rejected[1]", false},
      {"icr", "input", "chosen", "rejected"},
      {"intel", "question", "chosen", "rejected"},
      {"prompt_pairs", "prompt", "chosen", "rejected"},
      {"ultra", "prompt", "chosen[1]", "rejected[1]"},
  };
  return all;
}

// For labeled answers, `chosen` is the completion.
const std::vector<Source>& labeled_sources() {
  static const std::vector<Source> all = {
      {"argilla", "instruction", "completion", ""}, {"argilla_chat", "completion[0]", "completion[1]", "", false},
      {"intel", "question", "completion", ""},      {"prompt_pairs", "prompt", "completion", ""},
      {"ultra", "prompt", "completion", ""},
  };
  return all;
}

using Row = Registry<PromptFactory>::Row;

PreferenceFormat framed(const Source& source, const NamedFrame& frame, bool labeled) {
  PreferenceFormat f;
  f.name = fmt::format("{}.{}", frame.name, source.name);
  f.prompt = source.prompt;
  f.system = source.system ? "system" : "";
  f.frame = frame.frame;
  auto answer = [&](const char* name, const char* field, DocumentRole role) {
    f.answers.push_back({field, fmt::format("{{{}}}{}", name, frame.answer_end), name, role});
  };
  if (labeled) {
    f.label = "label";
    answer("completion", source.chosen, DocumentRole::desirable);
  } else {
    answer("chosen", source.chosen, DocumentRole::chosen);
    answer("rejected", source.rejected, DocumentRole::rejected);
  }
  return f;
}

void add_framed(const std::vector<Source>& sources, bool labeled, std::vector<Row>& out) {
  for (const NamedFrame& frame : frames())
    for (const Source& source : sources) {
      const PreferenceFormat format = framed(source, frame, labeled);
      std::string columns = format.prompt;
      for (auto& answer : format.answers) columns += ", " + answer.field;
      if (labeled) columns += ", label";
      out.push_back({format.name, fmt::format("{}, between {}'s markers", columns, frame.name),
                     [format](const PromptContext&) { return make_preference_text(format); }});
    }
}

// Strings used unchanged, or lists of messages, decided row by row.
class Passthrough : public PromptStrategy {
 public:
  explicit Passthrough(const PromptContext& context) : labeled_(context.rows == RowKind::labeled) {
    PreferenceFormat format;
    format.name = kPassthrough;
    format.prompt = "prompt";
    format.frame.literal = true;
    if (labeled_) {
      format.label = "label";
      format.answers = {{"completion", "{completion}", "completion", DocumentRole::desirable}};
    } else {
      format.answers = {{"chosen", "{chosen}", "chosen", DocumentRole::chosen},
                        {"rejected", "{rejected}", "rejected", DocumentRole::rejected}};
    }
    text_ = make_preference_text(std::move(format));
    try {
      chat_ = make_preference_chat(context, {});
    } catch (const UserError& error) {
      no_chat_ = error.what();  // an error only for rows of messages
    }
  }

  std::vector<Rendered> render(const Json& record) const override { return strategy(record).render(record); }
  Rendered prompt(const Json& record) const override { return strategy(record).prompt(record); }
  // For rows of texts; those of messages are asked through the chat template (assembly/prompt_format.h).
  void add_answer(Rendered& prompt, std::string_view answer) const override { text_->add_answer(prompt, answer); }
  std::string fingerprint() const override {
    return text_->fingerprint() + (chat_ ? chat_->fingerprint() : std::string());
  }
  std::string description() const override {
    return labeled_ ? "passthrough: prompt, completion and label as they are; trains on completions"
                    : "passthrough: prompt, chosen and rejected as they are; trains on answers";
  }

 private:
  const PromptStrategy& strategy(const Json& record) const {
    if (!holds_messages(record)) return *text_;
    if (chat_) return *chat_;
    throw UserError("the row holds messages: {}", no_chat_);
  }

  bool labeled_;
  std::unique_ptr<PromptStrategy> text_, chat_;
  std::string no_chat_;
};

std::unique_ptr<PromptStrategy> make_passthrough(const PromptContext& context) {
  return std::make_unique<Passthrough>(context);
}

std::unique_ptr<PromptStrategy> chat(const PromptContext& context, ChatPreference fields) {
  auto out = make_preference_chat(context, std::move(fields));
  for (auto& warning : chat_template_warnings(context)) log_warning("{}", warning);
  return out;
}

std::unique_ptr<PromptStrategy> make_default_chat(const PromptContext& context) {
  const DatasetEntry& e = *context.dataset;
  return chat(context, {.prompt = e.field_messages,
                        .system = e.field_system.value_or(""),
                        .chosen = e.field_chosen,
                        .rejected = e.field_rejected});
}

// The prompt is the common prefix of both lists of messages; a column `prompt` repeats it.
std::unique_ptr<PromptStrategy> make_common_chat(const PromptContext& context) {
  const DatasetEntry& e = *context.dataset;
  return chat(
      context,
      {.prompt = "", .system = e.field_system.value_or(""), .chosen = e.field_chosen, .rejected = e.field_rejected});
}

// Rows of strings (system, input, chosen, rejected) as conversations of one turn.
std::unique_ptr<PromptStrategy> make_input_chat(const PromptContext& context) {
  const DatasetEntry& e = *context.dataset;
  return chat(context, {.prompt = "input",
                        .system = e.field_system.value_or("system"),
                        .chosen = e.field_chosen,
                        .rejected = e.field_rejected});
}

std::vector<Row> pair_rows() {
  std::vector<Row> out;
  add_framed(pair_sources(), false, out);
  // Axolotl's names for reward models.
  const auto icr = std::ranges::find(out, "llama3.icr", &Row::name);
  out.push_back({"bradley_terry.llama3.icr", icr->help, icr->make});
  for (const char* name : {"bradley_terry.chat_template", "bradley_terry.chat_template.default"})
    out.push_back({name, "system, input, chosen, rejected: strings, through a chat template", make_input_chat});
  out.push_back({"chat_template", "messages, chosen, rejected, through a chat template", make_default_chat});
  out.push_back({"chat_template.default", "the same", make_default_chat});
  out.push_back({"chat_template.argilla", "chosen and rejected as whole conversations, through a chat template",
                 make_common_chat});
  out.push_back({"chat_template.argilla_chat", "the same", make_common_chat});
  out.push_back({kPassthrough, "prompt, chosen, rejected: strings used unchanged, or messages", make_passthrough});
  return out;
}

std::vector<Row> labeled_rows() {
  std::vector<Row> out;
  add_framed(labeled_sources(), true, out);
  out.push_back({"chat_template", "messages, completion, label, through a chat template", [](const PromptContext& c) {
                   return chat(c,
                               {.prompt = c.dataset->field_messages, .system = c.dataset->field_system.value_or("")});
                 }});
  out.push_back({kPassthrough, "prompt, completion, label: strings used unchanged, or messages", make_passthrough});
  return out;
}

const Registry<PromptFactory>& table_of(RowKind rows) {
  return rows == RowKind::labeled ? labeled_strategies() : pair_strategies();
}

}  // namespace

bool holds_messages(const Json& record) {
  return std::ranges::any_of(std::array{"prompt", "messages", "chosen", "rejected", "completion"},
                             [&](const char* column) {
                               const auto found = record.find(column);
                               return found != record.end() && (found->is_array() || found->is_object());
                             });
}

Registry<PromptFactory>& pair_strategies() {
  static Registry<PromptFactory> table("dataset type of pairs", pair_rows());
  return table;
}

Registry<PromptFactory>& labeled_strategies() {
  static Registry<PromptFactory> table("dataset type of labeled answers", labeled_rows());
  return table;
}

void check_preference_type(const DatasetType& type, RowKind rows) {
  if (type.name.starts_with("zephyr."))
    throw UserError(
        "type: {} takes the two worst answers by rank in Axolotl; write prompt, chosen and rejected yourself and use "
        "type: passthrough",
        type.name);
  const Registry<PromptFactory>& table = table_of(rows);
  if (type.format || type.name.empty() || table.find(type.name)) return;
  std::string hint = did_you_mean(type.name, table.names());
  if (hint.empty()) hint = "; most data are passthrough or chat_template, and dml list prompts names all types";
  throw UserError("unknown dataset type of {} '{}'{}", rows == RowKind::labeled ? "labeled answers" : "pairs",
                  type.name, hint);
}

std::string rl_of_type(const std::string& name) {
  const bool pairs = pair_strategies().find(name), labeled = labeled_strategies().find(name);
  return pairs && labeled ? "rl: dpo, ipo, orpo, simpo, cpo or kto, or reward_model: true"
         : pairs          ? "rl: dpo, ipo, orpo, simpo or cpo, or reward_model: true"
         : labeled        ? "rl: kto"
                          : "";
}

std::unique_ptr<PromptStrategy> make_preference_strategy(const PromptContext& context) {
  const DatasetType& type = context.dataset->type;
  check_preference_type(type, context.rows);
  if (type.format) return make_user_preference(context);
  return table_of(context.rows).at(type.name.empty() ? kPassthrough : type.name).make(context);
}

}  // namespace dml
