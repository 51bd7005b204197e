// The model card. Front matter: https://github.com/huggingface/hub-docs/blob/main/modelcard.md, with the tags that PEFT
// (peft_model.py, create_or_update_model_card) and Axolotl write.
#include <algorithm>
#include <filesystem>

#include "assembly/companions.h"
#include "checkpoint/quantization_config.h"
#include "core/files.h"
#include "core/version.h"
#include "data/file_names.h"
#include "hub/cache.h"

namespace dml {
namespace {

// A JSON text is a YAML text.
std::string yaml_text(const std::string& text) { return dump(Json(text)); }

// A name for the text of the card: paths of this machine are reduced to the file name.
std::string shown_name(const std::string& path) {
  return path.starts_with('/') ? std::filesystem::path(path).filename().string() : path;
}

// A name for the front matter, where the Hub links to it and refuses others; "" for a path.
std::string hub_id(const std::string& name) {
  const auto parsed = file_exists(name) || names_rows(name, false) ? std::nullopt : parse_hub_name(name);
  return parsed ? parsed->id : "";
}

// The names of the datasets, each once, without empty ones.
std::vector<std::string> dataset_names(const DataSection& data, std::string (*name_of)(const std::string&)) {
  std::vector<std::string> names;
  for (auto* list : {&data.datasets, &data.pretraining_dataset})
    for (const DatasetEntry& entry : *list)
      if (std::string name = name_of(entry.path); !name.empty() && std::ranges::find(names, name) == names.end())
        names.push_back(std::move(name));
  return names;
}

std::string method(const AdapterSection& a) {
  if (a.adapter == AdapterKind::none) return "all weights";
  std::string out = a.load_in_4bit ? "QLoRA" : "LoRA";
  if (a.lora_model_dir) {
    out += fmt::format(", continued from {}, dropout {:g}", shown_name(*a.lora_model_dir), a.lora_dropout);
  } else {
    out += fmt::format(", rank {}, alpha {:g}, dropout {:g}", a.lora_r, a.lora_alpha, a.lora_dropout);
    if (a.peft_use_rslora) out += ", rsLoRA";
    if (a.peft_use_dora) out += ", DoRA";
  }
  if (a.relora) out += ", merged (ReLoRA)";
  return out;
}

// The recipe as it was run: the file, or with settings of the command line what both came to.
std::string recipe_text(const RecipeFile& file) {
  const bool overridden =
      std::ranges::any_of(file.origins, [](auto& origin) { return origin.second == "command line"; });
  return overridden ? resolved_yaml(file) : file.text;
}

// A code block whose fence is longer than any in the text.
std::string fenced(const std::string& text, const std::string& language) {
  std::size_t longest = 2, run = 0;
  for (char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`');
  return fmt::format("{}{}\n{}{}{}\n", fence, language, text, text.ends_with('\n') ? "" : "\n", fence);
}

// What the Hub and transformers call a task.
struct TaskNames {
  const char *pipeline, *model_class;
};

TaskNames names_of(ModelTask task) {
  switch (task) {
    case ModelTask::reward:
      return {"text-classification", "SequenceClassification"};
    case ModelTask::process_reward:
      return {"token-classification", "TokenClassification"};
    case ModelTask::causal_lm:
      break;
  }
  return {"text-generation", "CausalLM"};
}

std::string front_matter(const Recipe& recipe, bool adapter, bool scratch) {
  const std::string base = scratch ? "" : hub_id(recipe.model.base_model);
  std::string out = "---\n";
  if (!base.empty()) out += fmt::format("base_model: {}\n", yaml_text(base));
  out += fmt::format("library_name: {}\npipeline_tag: {}\ntags:\n- dml\n", adapter ? "peft" : "transformers",
                     names_of(recipe.model.task).pipeline);
  if (adapter && !base.empty()) out += fmt::format("- {}\n", yaml_text("base_model:adapter:" + base));
  if (adapter) out += "- lora\n- transformers\n";
  const std::vector<std::string> datasets = dataset_names(recipe.data, hub_id);
  if (!datasets.empty()) out += "datasets:\n";
  for (const std::string& dataset : datasets) out += fmt::format("- {}\n", yaml_text(dataset));
  return out + "---\n";
}

// The Python code that loads a model, and the tokenizer. With `quantized`, the base is quantized as in training.
std::string python_text(ModelTask task, bool adapter, bool quantized) {
  const std::string model_class =
      fmt::format("{}For{}", adapter ? "AutoPeftModel" : "AutoModel", names_of(task).model_class);
  std::string imports = quantized ? "import json\n\n" : "", options;
  if (adapter) imports += fmt::format("from peft import {}\n", model_class);
  imports += fmt::format("from transformers import {}AutoTokenizer{}\n", adapter ? "" : model_class + ", ",
                         quantized ? ", BitsAndBytesConfig" : "");
  // PEFT opens the base, which does not say that the head has one label.
  if (adapter && task == ModelTask::reward) options += ", num_labels=1";
  if (quantized) options += ", quantization_config=quantization";
  return fmt::format(
      "{}\n{}model = {}.from_pretrained(\".\"{})\ntokenizer = AutoTokenizer.from_pretrained(\".\")\n", imports,
      quantized
          ? fmt::format("quantization = BitsAndBytesConfig.from_dict(json.load(open(\"{}\")))\n", kQuantizationConfig)
          : "",
      model_class, options);
}

// How to load the model, and how to use it with dml.
std::string use_text(ModelTask task, bool adapter, bool quantized) {
  const std::string command = task != ModelTask::causal_lm ? "dml score . --input FILE"
                              : adapter                    ? "dml infer --base-model BASE --adapter . --chat"
                                                           : "dml infer --base-model . --chat";
  return fenced(python_text(task, adapter, quantized), "python") + "\n" + fenced(command + "\n", "sh");
}

}  // namespace

std::string model_card(const RecipeFile& file, bool adapter, const std::string& name, const CardFacts& facts) {
  const Recipe& recipe = file.recipe;
  const std::string base = shown_name(recipe.model.base_model);
  const bool scratch = base.empty() || recipe.model.reinit_weights;
  const std::vector<std::string> datasets = dataset_names(recipe.data, shown_name);

  std::string out = front_matter(recipe, adapter, scratch) + fmt::format("\n# {}\n\n", name);
  out += adapter   ? fmt::format("A LoRA adapter for `{}`", base)
         : scratch ? std::string("A model trained from scratch")
                   : fmt::format("A model fine-tuned from `{}`", base);
  if (!datasets.empty()) out += fmt::format(" on {}", fmt::join(datasets, ", "));
  out += fmt::format(", trained with dml {}.\n\n", version());
  out += fmt::format("| | |\n|---|---|\n| trained | {} |\n", method(recipe.adapter));
  if (facts.step >= 0) out += fmt::format("| optimizer steps | {} |\n", facts.step);
  out += fmt::format("| context length | {} |\n", recipe.data.sequence_len);
  out += fmt::format("| optimizer | {}, learning rate {:g}, {} schedule |\n", recipe.optim.optimizer,
                     recipe.optim.learning_rate, recipe.optim.lr_scheduler);
  if (facts.validation_loss)
    out += fmt::format("| lowest validation loss | {:.4f} (step {}) |\n", *facts.validation_loss, facts.best_step);

  const bool quantized = adapter && (recipe.adapter.load_in_4bit || recipe.adapter.load_in_8bit);
  out += "\n## Use\n\n" + use_text(recipe.model.task, adapter, quantized);
  out += "\n## Recipe\n\n<details><summary>the recipe of this run</summary>\n\n" + fenced(recipe_text(file), "yaml") +
         "\n</details>\n";
  return out;
}

}  // namespace dml
