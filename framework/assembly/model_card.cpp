// The model card. Front matter: https://github.com/huggingface/hub-docs/blob/main/modelcard.md, with the tags that PEFT
// (peft_model.py, create_or_update_model_card) and Axolotl write.
#include <algorithm>
#include <filesystem>

#include "assembly/companions.h"
#include "core/version.h"

namespace dml {
namespace {

// A JSON text is a YAML text.
std::string yaml_text(const std::string& text) { return dump(Json(text)); }

// A dataset's name for the card: paths of this machine are reduced to the file name.
std::string dataset_name(const std::string& path) {
  return path.starts_with('/') ? std::filesystem::path(path).filename().string() : path;
}

std::vector<std::string> dataset_names(const DataSection& data) {
  std::vector<std::string> names;
  for (auto* list : {&data.datasets, &data.pretraining_dataset})
    for (const DatasetEntry& entry : *list)
      if (std::string name = dataset_name(entry.path); std::ranges::find(names, name) == names.end())
        names.push_back(std::move(name));
  return names;
}

std::string method(const AdapterSection& a) {
  if (a.adapter == AdapterKind::none) return "all weights";
  std::string out = a.load_in_4bit ? "QLoRA" : "LoRA";
  if (a.lora_model_dir) {
    out += fmt::format(", continued from {}, dropout {:g}", *a.lora_model_dir, a.lora_dropout);
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

}  // namespace

std::string model_card(const RecipeFile& file, bool adapter, const std::string& name, const CardFacts& facts) {
  const Recipe& recipe = file.recipe;
  const std::string& base = recipe.model.base_model;
  const bool scratch = base.empty() || recipe.model.reinit_weights;
  const std::vector<std::string> datasets = dataset_names(recipe.data);

  std::string out = "---\n";
  if (!scratch) out += fmt::format("base_model: {}\n", yaml_text(base));
  out +=
      fmt::format("library_name: {}\npipeline_tag: text-generation\ntags:\n- dml\n", adapter ? "peft" : "transformers");
  if (adapter) out += fmt::format("- {}\n- lora\n- transformers\n", yaml_text("base_model:adapter:" + base));
  if (!datasets.empty()) {
    out += "datasets:\n";
    for (const std::string& dataset : datasets) out += fmt::format("- {}\n", yaml_text(dataset));
  }
  out += fmt::format("---\n\n# {}\n\n", name);

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

  out += "\n## Use\n\n";
  out += fenced(adapter ? fmt::format("from peft import AutoPeftModelForCausalLM\nfrom transformers import "
                                      "AutoTokenizer\n\nmodel = AutoPeftModelForCausalLM.from_pretrained(\".\")\n"
                                      "tokenizer = AutoTokenizer.from_pretrained(\".\")\n")
                        : std::string("from transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
                                      "model = AutoModelForCausalLM.from_pretrained(\".\")\n"
                                      "tokenizer = AutoTokenizer.from_pretrained(\".\")\n"),
                "python");
  out +=
      "\n" +
      fenced(adapter ? "dml infer --base-model BASE --adapter . --chat\n" : "dml infer --base-model . --chat\n", "sh");
  out += "\n## Recipe\n\n<details><summary>the recipe of this run</summary>\n\n" + fenced(recipe_text(file), "yaml") +
         "\n</details>\n";
  return out;
}

}  // namespace dml
