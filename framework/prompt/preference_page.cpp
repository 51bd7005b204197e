#include "prompt/preference_page.h"

#include <fmt/format.h>

#include <vector>

#include "core/text.h"
#include "prompt/dataset_page.h"
#include "prompt/preference.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

struct PreferenceSample {
  RowKind rows;
  const char *type, *row;
};

std::string block_of(DatasetEntry entry, RowKind rows, const std::string& row) {
  PromptContext context;
  context.bos_token = "<s>";
  context.eos_token = "</s>";
  context.chat_template = "chatml";
  context.eot_tokens = {"<|im_end|>"};
  context.rows = rows;
  context.dataset = &entry;
  std::string shown;
  for (auto& document : make_prompt_strategy(context)->render(parse_json(row, "row"))) {
    const char* role = document.role == DocumentRole::chosen      ? "chosen:   "
                       : document.role == DocumentRole::rejected  ? "rejected: "
                       : document.role == DocumentRole::desirable ? "good: "
                                                                  : "bad: ";
    shown += role + show_mask(document) + "\n";
  }
  return "```json\n" + row + "\n```\n```text\n" + shown + "```\n";
}

std::string table_of(const Registry<PromptFactory>& types) {
  std::string out = "\n| `type` | columns |\n|---|---|\n";
  for (auto& type : types.rows())
    out += fmt::format("| `{}` | {} |\n", type.name, with_replaced(type.help, "|", "\\|"));
  return out;
}

const std::vector<PreferenceSample>& samples() {
  static const std::vector<PreferenceSample> all = {
      {RowKind::pairs, "passthrough", R"({"prompt": "Q: Hello\nA:", "chosen": " Bonjour.", "rejected": " Hi."})"},
      {RowKind::pairs, "chatml.intel",
       R"({"system": "Be brief.", "question": "Hello", "chosen": "Bonjour.", "rejected": "Hi."})"},
      {RowKind::pairs, "chat_template",
       R"({"messages": [{"role": "user", "content": "Hello"}], "chosen": {"role": "assistant", "content": "Bonjour."}, "rejected": {"role": "assistant", "content": "Hi."}})"},
      {RowKind::pairs, "chat_template.argilla",
       R"({"chosen": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Bonjour."}], "rejected": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}]})"},
      {RowKind::labeled, "passthrough", R"({"prompt": "Q: Hello\nA:", "completion": " Bonjour.", "label": true})"},
      {RowKind::labeled, "llama3.argilla", R"({"instruction": "Hello", "completion": "Hi.", "label": false})"},
  };
  return all;
}

}  // namespace

std::string preference_sections() {
  std::string out =
      "\n## Preferences\n\nWith `rl` a row is a pair of answers, or an answer with a label, and `type` names one of "
      "these formats. Prompts are not trained, except with `rl: orpo`, whose cross-entropy covers the chosen prompt "
      "too.\n\n`rl: dpo`, `ipo`, `orpo`, `simpo`, `cpo`:\n" +
      table_of(pair_strategies()) + "\n`rl: kto`, where `label` is true for good answers and false for bad ones:\n" +
      table_of(labeled_strategies());
  for (const PreferenceSample& sample : samples()) {
    DatasetEntry entry;
    entry.type.name = sample.type;
    out += fmt::format("\n### `type: {}`, {}\n\n{}", sample.type,
                       sample.rows == RowKind::labeled ? "an answer with a label" : "a pair",
                       block_of(entry, sample.rows, sample.row));
  }
  DatasetEntry own;
  own.type.format.emplace();
  own.type.format->field_prompt = "question";
  own.type.format->field_chosen = "good";
  own.type.format->field_rejected = "bad";
  own.type.format->prompt_format = "Q: {prompt}\nA:";
  own.type.format->chosen_format = " {chosen}";
  own.type.format->rejected_format = " {rejected}";
  out +=
      "\n### A custom format of pairs\n\n```yaml\ntype:\n  field_prompt: question\n  field_chosen: good\n"
      "  field_rejected: bad\n  prompt_format: \"Q: {prompt}\\nA:\"\n  chosen_format: \" {chosen}\"\n"
      "  rejected_format: \" {rejected}\"\n```\n" +
      block_of(own, RowKind::pairs, R"({"question": "Hello", "good": "Bonjour.", "bad": "Hi."})");
  return out;
}

}  // namespace dml
