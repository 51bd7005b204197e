#include "assembly/hub_files.h"

#include <filesystem>

#include "core/error.h"
#include "data/file_names.h"
#include "hub/fetch.h"

namespace dml {

void download_missing_files(const RecipeFile& file) {
  Problems problems;
  auto fetch = [&](const std::string& key, HubKind kind, const std::string& name, const FileChoice& choose = {}) {
    std::error_code unknown;
    if (name.empty() || std::filesystem::exists(name, unknown)) return;
    if (kind == HubKind::dataset && names_rows(name, false)) return;  // a path; reading it says that it is missing
    try {
      hub_folder(kind, name, choose);
    } catch (const UserError& error) {
      for (const Problem& problem : error.about(key).problems()) problems.add(file.located(problem));
    } catch (const IoError& error) {
      throw IoError(
          file.located({key, "", fmt::format("there is no file or folder '{}' here; {}", name, error.what())}).line());
    }
  };
  const ModelSection& model = file.recipe.model;
  fetch("base_model", HubKind::model, model.base_model);
  fetch("base_model_config", HubKind::model, model.base_model_config.value_or(""));
  fetch("tokenizer_config", HubKind::model, model.tokenizer_config.value_or(""));
  auto entries = [&](const char* list, const std::vector<DatasetEntry>& all) {
    for (std::size_t i = 0; i < all.size(); ++i)
      fetch(fmt::format("{}.{}.path", list, i), HubKind::dataset, all[i].path,
            [&](const std::string& folder, const std::vector<std::string>& files) {
              return wanted_files(all[i], folder, files);
            });
  };
  entries("datasets", file.recipe.data.datasets);
  entries("test_datasets", file.recipe.data.test_datasets);
  entries("pretraining_dataset", file.recipe.data.pretraining_dataset);
  problems.raise();
}

RecipeFile load_recipe_to_run(const std::string& path, const std::vector<Override>& overrides, RecipeUse use) {
  RecipeFile file = load_recipe(path, overrides, use);
  download_missing_files(file);
  return file;
}

}  // namespace dml
