// Files and folders that a recipe names and that do not exist.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/directory.h"
#include "core/files.h"
#include "hub/cache.h"
#include "recipe/hub_parts.h"
#include "recipe/stages.h"

namespace dml::recipe {

std::vector<Problem> missing_files(const Recipe& recipe, const Reading& reading) {
  std::vector<std::pair<Place, Problem>> found;
  auto add = [&](const std::string& key, const std::string& text) {
    const auto given = reading.given.find(key);
    const bool derived = given == reading.given.end();
    const Place place = derived ? Place{} : given->second;
    found.push_back({place, {key, derived ? "" : reading.report.at(place), fmt::format("'{}': {}", key, text)}});
  };
  auto check = [&](const std::string& key, const std::string& path, std::optional<HubKind> kind = {},
                   const SnapshotParts& parts = {}) {
    std::error_code unknown;
    if (path.empty() || path.find_first_of("*?[") != path.npos || std::filesystem::exists(path, unknown)) return;
    if (const auto folder = kind ? find_in_hub_cache(*kind, path) : std::nullopt) {
      const std::string lacking = kind == HubKind::model ? lacking_parts(*folder, parts) : "";
      if (!lacking.empty()) add(key, partial_model_text(path, *folder, lacking));
    } else if (missing_path(path)) {
      add(key, fmt::format("no such file or directory: '{}'{}", shown(path),
                           kind ? missing_advice(*kind, path) : near_missing(path)));
    } else {
      add(key, fmt::format("'{}' cannot be opened: {}", shown(path), path_problem(path)));
    }
  };
  check("base_model", recipe.model.base_model, HubKind::model, parts_of_base(recipe.model));
  check("base_model_config", recipe.model.base_model_config.value_or(""), HubKind::model, kConfigOnly);
  check("tokenizer_config", recipe.model.tokenizer_config.value_or(""), HubKind::model, kTokenizerOnly);
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
