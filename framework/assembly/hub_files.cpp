#include "assembly/hub_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "core/error.h"
#include "data/file_names.h"
#include "hub/fetch.h"
#include "recipe/hub_parts.h"

namespace dml {
namespace {

constexpr std::array<std::string_view, 3> kModelKeys{"base_model", "base_model_config", "tokenizer_config"};

// Downloads what one recipe names, and collects the problems.
class RecipeDownloads {
 public:
  explicit RecipeDownloads(RecipeFile& file) : file_(file) {}

  void model(const std::string& key, const std::string& name, const SnapshotParts& parts) {
    fetch(key, name, [&] { return hub_model_folder(name, parts); });
  }

  void datasets(const char* list, const std::vector<DatasetEntry>& all) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const DatasetEntry& entry = all[i];
      if (names_rows(entry.path, false)) continue;  // a path; reading it says that it is missing
      fetch(fmt::format("{}.{}.path", list, i), entry.path, [&] {
        return hub_dataset_folder(entry.path, [&](const std::string& folder, const std::vector<std::string>& files) {
          return wanted_files(entry, folder, files);
        });
      });
    }
  }

  void raise() const { problems_.raise(); }

 private:
  template <class Fetch>
  void fetch(const std::string& key, const std::string& name, const Fetch& fetch) {
    std::error_code unknown;
    if (name.empty() || std::filesystem::exists(name, unknown)) return;
    try {
      if (fetch()) std::erase_if(file_.missing, [&](const Problem& problem) { return problem.key == key; });
    } catch (const UserError& error) {
      for (const Problem& problem : error.about(key).problems()) problems_.add(file_.located(problem));
    } catch (const IoError& error) {
      throw IoError(
          file_.located({key, "", fmt::format("there is no file or folder '{}' here; {}", name, error.what())}).line());
    }
  }

  RecipeFile& file_;
  Problems problems_;
};

}  // namespace

void download_missing_files(RecipeFile& file, const RecipeReads& reads) {
  if (hub_offline()) return;
  RecipeDownloads downloads(file);
  const ModelSection& model = file.recipe.model;
  SnapshotParts base = parts_of_base(model);
  base.weights = base.weights && reads.weights;
  downloads.model("base_model", model.base_model, base);
  downloads.model("base_model_config", model.base_model_config.value_or(""), kConfigOnly);
  downloads.model("tokenizer_config", model.tokenizer_config.value_or(""), kTokenizerOnly);
  if (reads.rows) {
    downloads.datasets("datasets", file.recipe.data.datasets);
    downloads.datasets("test_datasets", file.recipe.data.test_datasets);
    downloads.datasets("pretraining_dataset", file.recipe.data.pretraining_dataset);
  }
  downloads.raise();
}

RecipeFile load_recipe_to_run(const std::string& path, const std::vector<Override>& overrides, RecipeUse use,
                              const RecipeReads& reads) {
  RecipeFile file = load_recipe(path, overrides, use);
  download_missing_files(file, reads);
  return file;
}

void require_files(const RecipeFile& file, const RecipeReads& reads) {
  std::vector<Problem> missing = file.missing;
  std::erase_if(missing, [&](const Problem& problem) {
    return !reads.rows && std::ranges::find(kModelKeys, problem.key) == kModelKeys.end();
  });
  if (!missing.empty()) throw UserError(std::move(missing));
}

}  // namespace dml
