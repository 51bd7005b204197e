#include "prompt/prompt_only.h"

#include <utility>

#include "prompt/preference.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

// Formats of pairs have prompts as well; formats of texts take precedence if a name is in both tables.
RowKind kind_of(const DatasetType& type) {
  const bool pairs = !type.format && !prompt_strategies().find(type.name) && pair_strategies().find(type.name);
  return pairs ? RowKind::pairs : RowKind::text;
}

class PromptOnly : public PromptStrategy {
 public:
  explicit PromptOnly(const PromptContext& context) : dataset_(*context.dataset) {
    PromptContext own = context;
    own.rows = kind_of(dataset_.type);
    as_it_is_ = own.rows == RowKind::pairs;
    format_ = make_prompt_strategy(own);
  }

  std::vector<Rendered> render(const Json& record) const override { return single(prompt(record)); }

  Rendered prompt(const Json& record) const override {
    Rendered out = format_->prompt(as_it_is_ ? record : question_row(record, dataset_));
    for (Segment& segment : out.segments) {
      for (Segment::Span& span : segment.spans) span.trained = false;
      segment.end_trained = false;
    }
    return out;
  }

  void add_answer(Rendered& prompt, std::string_view answer) const override { format_->add_answer(prompt, answer); }
  std::string fingerprint() const override { return "prompts|" + format_->fingerprint(); }
  std::vector<std::pair<std::string, std::string>> inputs() const override {
    auto out = format_->inputs();
    out.emplace_back("prompts", "1");
    return out;
  }
  std::string description() const override { return "prompts of " + format_->description(); }

 private:
  DatasetEntry dataset_;
  bool as_it_is_ = false;  // the format itself reads `prompt`
  std::unique_ptr<PromptStrategy> format_;
};

}  // namespace

std::unique_ptr<PromptStrategy> make_prompt_only(const PromptContext& context) {
  return std::make_unique<PromptOnly>(context);
}

PromptContext answering_context(PromptContext context) {
  if (context.rows == RowKind::prompts) context.rows = kind_of(context.dataset->type);
  context.trains = false;
  return context;
}

void check_prompt_only_type(const DatasetType& type) { check_prompt_type(type, kind_of(type)); }

Json question_row(const Json& record, const DatasetEntry& dataset) {
  const auto given = record.find("prompt");
  if (given == record.end()) return record;
  Json out = given->is_string() ? row_of_prompt(given->get<std::string>(), dataset) : Json::object();
  if (given->is_array()) out[dataset.field_messages] = *given;
  out.update(record);
  return out;
}

Json row_of_prompt(const std::string& prompt, const DatasetEntry& dataset) {
  // Beside messages this format would not read the text.
  if (dataset.type.name == kPassthrough) return {{"prompt", prompt}};
  Json row = Json::object();
  for (const char* field : {"prompt", "instruction", "question", "text", "article", "INSTRUCTION", "message_1"})
    row[field] = prompt;
  if (dataset.type.format) row[dataset.type.format->field_instruction] = prompt;
  if (dataset.field) row[*dataset.field] = prompt;
  auto name = [&](const char* property) {
    auto it = dataset.message_property_mappings.find(property);
    return it == dataset.message_property_mappings.end() ? std::string(property) : it->second;
  };
  Json message = Json::object();
  message[name("role")] = "user";
  message[name("content")] = prompt;
  row[dataset.field_messages] = Json::array({message});
  row["conversations"] = Json::array({Json{{"from", "human"}, {"value", prompt}}});
  return row;
}

}  // namespace dml
