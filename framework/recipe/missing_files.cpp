// Files and folders that a recipe names and that do not exist.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/directory.h"
#include "core/files.h"
#include "hub/cache.h"
#include "recipe/stages.h"

namespace dml::recipe {

std::vector<Problem> missing_files(const Recipe& recipe, const Reading& reading) {
  std::vector<std::pair<Place, Problem>> found;
  auto check = [&](const std::string& key, const std::string& path, std::optional<HubKind> kind = {}) {
    std::error_code unknown;
    if (path.empty() || path.find_first_of("*?[") != path.npos || std::filesystem::exists(path, unknown)) return;
    if (kind && find_in_hub_cache(*kind, path)) return;
    const auto given = reading.given.find(key);
    const bool derived = given == reading.given.end();
    const Place place = derived ? Place{} : given->second;
    found.push_back(
        {place,
         {key, derived ? "" : reading.report.at(place),
          missing_path(path) ? fmt::format("'{}': no such file or directory: '{}'{}", key, shown(path),
                                           kind ? missing_advice(*kind, path) : near_missing(path))
                             : fmt::format("'{}': '{}' cannot be opened: {}", key, shown(path), path_problem(path))}});
  };
  check("base_model", recipe.model.base_model, HubKind::model);
  check("base_model_config", recipe.model.base_model_config.value_or(""), HubKind::model);
  check("tokenizer_config", recipe.model.tokenizer_config.value_or(""), HubKind::model);
  check("lora_model_dir", recipe.adapter.lora_model_dir.value_or(""));
  check("scores.path", recipe.data.scores.path);
  check("resume_from_checkpoint", recipe.train.resume_from_checkpoint.value_or(""));
  auto entries = [&](const char* list, const std::vector<DatasetEntry>& all) {
    for (std::size_t i = 0; i < all.size(); ++i)
      check(fmt::format("{}.{}.path", list, i), all[i].path, HubKind::dataset);
  };
  entries("datasets", recipe.data.datasets);
  entries("test_datasets", recipe.data.test_datasets);
  entries("pretraining_dataset", recipe.data.pretraining_dataset);
  std::ranges::stable_sort(found, {}, [](auto& f) { return std::pair(f.first.line, f.first.column); });
  std::vector<Problem> out;
  for (auto& [place, problem] : found) out.push_back(std::move(problem));
  return out;
}

}  // namespace dml::recipe
