#include "pipeline/init_text.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "core/error.h"
#include "core/size_text.h"
#include "core/text.h"
#include "core/utf8.h"
#include "core/version.h"
#include "data/report.h"
#include "train/progress.h"

namespace dml {
namespace {

// Writes a text as YAML: plain where it cannot be read as something else, otherwise quoted.
std::string yaml(const std::string& text) {
  const bool simple = !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-' || c == '.' || c == '/';
  });
  static const std::vector<std::string> kWords{"true", "false", "yes", "no",  "on", "off",
                                               "null", "y",     "n",   "nan", "inf"};
  const bool path = text.starts_with('/') || text.starts_with("./") || text.starts_with("../");
  const bool word = simple && std::isalpha(static_cast<unsigned char>(text[0])) &&
                    std::ranges::find(kWords, ascii_lower(text)) == kWords.end();
  return simple && (path || word) ? text : dump(Json(text));
}

std::string yaml_list(const std::vector<std::string>& items) {
  std::string out;
  for (auto& item : items) out += (out.empty() ? "" : ", ") + dump(Json(item));
  return "[" + out + "]";
}

std::string number(double value) {
  std::string text = fmt::format("{:g}", value);
  if (auto e = text.find("e-0"); e != text.npos) text.erase(e + 2, 1);
  return text.find('e') != text.npos && text.find('.') == text.npos ? text.insert(text.find('e'), ".0") : text;
}

// Replaces line ends, so that the text fits into a comment of one line.
std::string one_line(const std::string& text) {
  std::string out = escape_controls(text);
  std::ranges::replace(out, '\n', ' ');
  return out;
}

class Writer {
 public:
  void line(const std::string& text, const std::string& comment = "") {
    if (comment.empty()) out_ += text + "\n";
    else out_ += fmt::format("{:<{}}# {}\n", text, std::max<std::size_t>(kColumn, text.size() + 2), one_line(comment));
  }
  void key(const std::string& key, const std::string& value, const std::string& comment = "") {
    line(fmt::format("{}: {}", key, value), comment);
  }
  /// A text of several lines.
  void block(const std::string& key, const std::string& text) {
    line(key + ": |");
    std::istringstream lines(text);
    for (std::string each; std::getline(lines, each);) line(each.empty() ? "" : "  " + each);
  }
  void gap() { out_ += "\n"; }
  std::string take() { return std::move(out_); }

 private:
  static constexpr std::size_t kColumn = 42;
  std::string out_;
};

std::string length_text(const LengthFacts& l) {
  return fmt::format("median {} tokens, 99 % up to {}, longest {}", grouped(l.quantile(0.5)), grouped(l.quantile(0.99)),
                     grouped(l.longest()));
}

std::string rows_text(const DataFacts& data) {
  return fmt::format("{}{} row{}", data.rows_estimated ? "about " : "", grouped(data.rows), data.rows == 1 ? "" : "s");
}

std::string trained_text(const Recipe& r) {
  switch (r.adapter.adapter) {
    case AdapterKind::lora:
      return "LoRA";
    case AdapterKind::qlora:
      return "QLoRA (quantized base)";
    default:
      return r.model.base_model.empty() ? "from scratch" : "every weight";
  }
}

std::string method_text(const Recipe& r) {
  const char* rl = r.preference.rl == Rl::none ? "" : r.preference.rl == Rl::kto ? "KTO, " : "DPO, ";
  return rl + trained_text(r);
}

std::string memory_line(const InitChoice& c) {
  return fmt::format("about {} of {} available", size_text(c.memory.total()), size_text(c.available));
}

std::string size_of(const ModelFacts& m) {
  return fmt::format("{}, {} parameters, {}", m.spec.model_type, count_text(static_cast<double>(m.spec.parameters())),
                     m.dtype);
}

void write_model(Writer& w, const ModelFacts& model, const Recipe& r) {
  if (!model.scratch) {
    w.key("base_model", yaml(model.name), size_of(model));
  } else {
    w.key("tokenizer_config", yaml(model.name), "there is no base_model: the model begins with random weights");
    w.line("model_config:");
    for (auto& [key, value] : r.model.model_config.items()) {
      const std::string text = value.is_string()         ? yaml(value.get<std::string>())
                               : value.is_number_float() ? number(value.get<double>())
                                                         : dump(value);
      w.key("  " + key, value.is_number_float() && text.find('.') == text.npos ? text + ".0" : text,
            key == "hidden_size"               ? "width; with the layers: the size of the model"
            : key == "max_position_embeddings" ? "the longest context"
            : key == "initializer_range"       ? "of the random weights"
                                               : "");
    }
  }
  const SpecialTokens& s = r.model.special_tokens;
  if (!s.eos_token && s.additional_special_tokens.empty()) return;
  w.line("special_tokens:");
  if (s.eos_token) w.key("  eos_token", dump(Json(*s.eos_token)), "the tokenizer names none");
  if (!s.additional_special_tokens.empty())
    w.key("  additional_special_tokens", yaml_list(s.additional_special_tokens), "new: the template's markers");
}

void write_dataset(Writer& w, const DataFacts& data) {
  const DatasetEntry& e = data.entry;
  const DatasetEntry plain;
  w.line("datasets:");
  w.key("  - path", yaml(e.path), fmt::format("{}, {}", data.files.substr(data.files.find(": ") + 2), rows_text(data)));
  if (e.ds_type) w.key("    ds_type", yaml(*e.ds_type), *e.ds_type == "document" ? "every file is one document" : "");
  if (data.kind == DataKind::tokens) w.line("    type:", data.contents);
  else w.key("    type", yaml(e.type.name), data.contents);
  if (e.field) w.key("    field", yaml(*e.field));
  if (!e.message_columns.empty()) {
    w.line("    message_columns:", "role: column");
    for (const char* role : {"system", "user", "assistant"})
      if (auto c = e.message_columns.find(role); c != e.message_columns.end())
        w.key(fmt::format("      {}", role), c->second.size() == 1 ? yaml(c->second[0]) : yaml_list(c->second));
  }
  if (e.field_messages != plain.field_messages) w.key("    field_messages", yaml(e.field_messages));
  if (e.field_system) w.key("    field_system", yaml(*e.field_system));
  if (e.field_chosen != plain.field_chosen) w.key("    field_chosen", yaml(e.field_chosen));
  if (e.field_rejected != plain.field_rejected) w.key("    field_rejected", yaml(e.field_rejected));
  if (e.message_property_mappings != plain.message_property_mappings) {
    w.line("    message_property_mappings:", "the template's name: the data's name");
    for (auto& [target, source] : e.message_property_mappings) w.key(fmt::format("      {}", target), yaml(source));
  }
  if (e.roles) {
    w.line("    roles:", "the template's role: its names in the data");
    for (auto& [role, names] : *e.roles) w.key(fmt::format("      {}", role), yaml_list(names));
  }
}

void write_method(Writer& w, const Recipe& r) {
  const AdapterSection& a = r.adapter;
  if (a.adapter != AdapterKind::none) {
    const bool four = a.load_in_4bit;
    w.key(
        "adapter", four ? "qlora" : "lora",
        four ? "small matrices are trained; the base is quantized" : "small matrices are trained, the base is frozen");
    if (four) w.key("load_in_4bit", "true");
    w.key("lora_r", fmt::format("{}", a.lora_r), "rank: a higher one can learn more and takes more memory");
    w.key("lora_alpha", number(a.lora_alpha));
    w.key("lora_dropout", number(a.lora_dropout));
    w.key("lora_target_linear", "true", "on every linear layer");
    if (!a.lora_modules_to_save.empty())
      w.key("lora_modules_to_save", yaml_list(a.lora_modules_to_save), "new tokens are trained there");
    if (a.peft_ensure_weight_tying) w.key("peft_ensure_weight_tying", "true", "one copy for both, as in the model");
    w.gap();
  }
}

void write_preference(Writer& w, Rl rl) {
  if (rl == Rl::none) return;
  w.key("rl", rl == Rl::kto ? "kto" : "dpo",
        rl == Rl::kto ? "trained on good and bad answers" : "trained to prefer the chosen answer of each pair");
  w.key("rl_beta", "0.1", "larger: stay closer to the model at the start");
  w.gap();
}

}  // namespace

std::string infer_command_line(const DataFacts& data, const std::string& name) {
  if (data.kind == DataKind::conversations && data.entry.type.name.starts_with("chat_template"))
    return fmt::format("dml infer {} --chat", name);
  return fmt::format("dml infer {} --prompt 'Once upon a time'", name);
}

std::string recipe_text(const ModelFacts& model, const DataFacts& data, const InitChoice& choice,
                        const std::string& name) {
  const Recipe& r = choice.recipe;
  Writer w;
  w.line(fmt::format("# Written by dml {} init for {} and {}; every line may be changed (dml help KEY explains one).",
                     version(), one_line(model.name), one_line(data.entry.path)));
  w.line(fmt::format("#   dml train {}", one_line(name)));
  w.line(fmt::format("#   {}", one_line(infer_command_line(data, name))));
  w.gap();
  write_model(w, model, r);
  w.gap();
  write_dataset(w, data);
  if (r.templates.chat_template) w.key("chat_template", yaml(*r.templates.chat_template), choice.chat.reason);
  if (r.templates.chat_template_jinja) w.block("chat_template_jinja", *r.templates.chat_template_jinja);
  if (r.templates.eot_tokens) w.key("eot_tokens", yaml_list(*r.templates.eot_tokens), "ends every turn");
  if (r.data.val_set_size > 0)
    w.key("val_set_size", number(r.data.val_set_size),
          r.data.val_set_size < 1 ? "share of the rows that is held out to measure the validation loss"
                                  : "rows that are held out to measure the validation loss");
  else w.key("val_set_size", "0", "too few rows to hold any out");
  w.key("sequence_len", fmt::format("{}", r.data.sequence_len), length_text(choice.lengths));
  if (r.data.sample_packing) w.key("sample_packing", "true", "rows of exactly sequence_len tokens");
  w.gap();
  write_preference(w, data.rl);
  write_method(w, r);
  w.key("micro_batch_size", fmt::format("{}", r.train.micro_batch_size), "examples at a time: " + memory_line(choice));
  w.key(
      "gradient_accumulation_steps", fmt::format("{}", r.train.gradient_accumulation_steps.value_or(1)),
      fmt::format("examples per step: {}", r.train.micro_batch_size * r.train.gradient_accumulation_steps.value_or(1)));
  if (r.train.gradient_checkpointing == Recompute::layer)
    w.key("gradient_checkpointing", "true", "recomputes activations instead of saving them");
  w.key("num_epochs", number(r.train.num_epochs), fmt::format("about {} steps", grouped(choice.steps)));
  w.gap();
  w.key("optimizer", r.optim.optimizer);
  w.key("learning_rate", number(r.optim.learning_rate),
        fmt::format("usual for {} of this size", r.adapter.adapter == AdapterKind::none
                                                     ? "training every weight of a model"
                                                     : "an adapter on a model"));
  w.key("lr_scheduler", r.optim.lr_scheduler);
  w.key("warmup_ratio", number(r.optim.warmup_ratio.value_or(0.05)));
  w.gap();
  if (r.data.val_set_size > 0) w.key("eval_steps", number(r.train.eval_steps.value_or(0.1)), "ten evaluations");
  w.key("save_steps", number(r.train.save_steps.value_or(0.5)), "a checkpoint at half of the run, and one at its end");
  w.key("save_total_limit", fmt::format("{}", r.train.save_total_limit));
  w.key("seed", fmt::format("{}", r.train.seed));
  w.key("output_dir", yaml(r.train.output_dir));
  return w.take();
}

std::vector<std::string> describe(const ModelFacts& model, const DataFacts& data, const InitChoice& choice) {
  const Recipe& r = choice.recipe;
  std::vector<std::string> lines = model.lines;
  lines.push_back(fmt::format("data       {}, {}", data.files, rows_text(data)));
  lines.push_back(fmt::format("contents   {}", data.contents));
  lines.push_back(
      fmt::format("lengths    {} ({} rows tokenized)", length_text(choice.lengths), grouped(choice.lengths.rows)));
  if (r.templates.chat_template)
    lines.push_back(fmt::format("template   {}: {}", *r.templates.chat_template, choice.chat.reason));
  const std::int64_t batch = r.train.micro_batch_size * r.train.gradient_accumulation_steps.value_or(1);
  lines.push_back(fmt::format("training   {}, learning rate {}, {} epochs, about {} steps of {} example{}",
                              method_text(r), number(r.optim.learning_rate), number(r.train.num_epochs),
                              grouped(choice.steps), batch, batch == 1 ? "" : "s"));
  lines.push_back(fmt::format("memory     {}", memory_line(choice)));
  return lines;
}

}  // namespace dml
