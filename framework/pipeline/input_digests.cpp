#include "pipeline/input_digests.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>

#include "assembly/eval_tasks.h"
#include "assembly/model_location.h"
#include "core/error.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/model_file_names.h"
#include "data/sources.h"
#include "evaluate/checks.h"
#include "evaluate/rewards.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

using Paths = std::vector<std::string>;

// What a model is read from, in a folder that may also hold the other files of a run.
bool is_of_a_model(const fs::path& path) {
  constexpr std::array<std::string_view, 4> kEndings{".safetensors", ".safetensors.index.json", ".gguf", ".jinja"};
  const std::string name = path.filename().string();
  const auto is_one_of = [&](const auto& names) { return std::ranges::find(names, name) != names.end(); };
  return is_one_of(kConfigFiles) || is_one_of(kTokenizerFiles) || is_one_of(kOtherTokenizerFiles) ||
         std::ranges::any_of(kEndings, [&](std::string_view ending) { return name.ends_with(ending); });
}

// The files of a model or adapter, sorted: of a folder, a GGUF file, or a snapshot in the Hub's cache; also those of
// the base that an adapter names (`with_base`). The name itself where there are none.
Paths model_files(const std::string& name, bool with_base = true) {
  std::error_code error;
  if (fs::is_regular_file(name, error)) return {name};
  std::string folder = name;
  try {
    folder = model_directory(name);
  } catch (const Error&) {  // not downloaded yet
  }
  Paths out;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->is_regular_file(error) && is_of_a_model(it->path())) out.push_back(it->path().string());
  std::ranges::sort(out);
  if (out.empty()) return {name};
  const std::string config = path_in(folder, "adapter_config.json");
  if (!with_base || !file_exists(config)) return out;
  const Json adapter = read_json(config);
  const std::string base =
      adapter.is_object() ? json_string(adapter, "base_model_name_or_path", "", config) : std::string();
  if (!base.empty())
    for (const std::string& path : model_files(base, false)) out.push_back(path);
  return out;
}

std::vector<std::string> reward_models(const PreferenceSection& section) {
  std::vector<std::string> out;
  for (const EvalCheck& reward : section.rewards)
    if (reward.name == kRewardModel && reward.value.is_string()) out.push_back(reward.value.get<std::string>());
  return out;
}

// The files among the words of a command that judges answers.
void add_programs(const std::vector<EvalCheck>& checks, Paths& out) {
  for (const EvalCheck& check : checks) {
    if (check.name != kProgramCheck) continue;
    std::istringstream words;
    if (check.value.is_string()) words.str(check.value.get<std::string>());
    if (check.value.is_array()) {
      std::string all;
      for (const Json& word : check.value) all += word.is_string() ? word.get<std::string>() + " " : "";
      words.str(all);
    }
    std::error_code error;
    for (std::string word; words >> word;)
      if (fs::is_regular_file(word, error)) out.push_back(word);
  }
}

Paths data_files(const DataSection& data) {
  Paths out{data.scores.path};
  for (const auto* entries : {&data.datasets, &data.test_datasets, &data.pretraining_dataset})
    for (const DatasetEntry& entry : *entries) try {
        for (const SourceFile& source : find_sources(entry))
          out.push_back(source.path.substr(0, source.path.find("::")));  // of an archive
        out.push_back(entry.chat_template_jinja.value_or(""));
      } catch (const UserError&) {
        out.push_back(entry.path);  // training reports it
      }
  return out;
}

Paths all_files(const Recipe& recipe) {
  Paths out = data_files(recipe.data);
  const auto add_models = [&](const std::vector<std::string>& names) {
    for (const std::string& name : names)
      if (!name.empty())
        for (std::string& path : model_files(name)) out.push_back(std::move(path));
  };
  add_models({recipe.model.base_model, recipe.model.base_model_config.value_or(""),
              recipe.model.tokenizer_config.value_or(""), recipe.adapter.lora_model_dir.value_or("")});
  add_models(reward_models(recipe.preference));
  add_programs(recipe.preference.rewards, out);
  for (const EvalEntry& entry : recipe.evaluation.evals) {
    out.push_back(entry.path);
    out.push_back(entry.task);
    add_programs(entry.checks, out);
  }
  out.push_back(recipe.templates.chat_template_jinja.value_or(""));
  out.insert(out.end(), recipe.plugin.plugins.begin(), recipe.plugin.plugins.end());
  return out;
}

}  // namespace

std::vector<std::string> input_files(const RecipeFile& file) {
  Paths out = all_files(file.recipe);
  out.push_back(file.path);
  return out;
}

std::string digest_of_reward_models(const PreferenceSection& section) {
  const std::vector<std::string> models = reward_models(section);
  if (models.empty()) return "";
  Hasher hasher;
  for (const std::string& model : models)
    for (const std::string& path : model_files(model)) {
      hasher.text(fs::path(path).filename().string());
      if (file_exists(path)) hasher.text(digest_of_file(path));
    }
  return hasher.digest();
}

std::string digest_of_evals(const EvalSection& section) {
  if (section.evals.empty()) return "";
  Hasher hasher;
  for (const EvalTask& task : eval_tasks(section)) {
    hasher.text(task.name).number(task.raw).number(static_cast<std::uint64_t>(task.max_new_tokens));
    for (const EvalRow& row : task.rows) hasher.text(dump(row.json));
    for (const CheckRequest& check : task.checks)
      hasher.text(check.name).text(dump(check.value)).text(dump(check.options));
    for (const std::string& text : task.until) hasher.text(text);
  }
  return hasher.digest();
}

std::string digest_of_adapter(const std::string& folder, bool weights) {
  std::vector<const char*> names{"adapter_config.json"};
  if (weights) names.insert(names.end(), {"adapter_model.safetensors", "adapter_model.bin", "adapters.safetensors"});
  Hasher hasher;
  for (const char* name : names)
    if (const std::string path = path_in(folder, name); file_exists(path)) hasher.text(name).text(digest_of_file(path));
  return hasher.digest();
}

std::string digest_of_inputs(RecipeFile file) {
  file.recipe.train.output_dir.clear();
  Hasher hasher;
  hasher.text(resolved_yaml(file));
  for (const std::string& path : all_files(file.recipe)) {
    if (path.empty()) continue;
    hasher.text(path);
    std::error_code error;
    if (!fs::is_regular_file(path, error)) continue;
    hasher.number(fs::file_size(path, error));
    hasher.number(static_cast<std::uint64_t>(fs::last_write_time(path, error).time_since_epoch().count()));
  }
  return hasher.digest();
}

}  // namespace dml
