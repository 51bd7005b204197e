#include "data/dataset_card.h"

#include <algorithm>
#include <filesystem>

#include "core/closest.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/shown.h"
#include "data/path_pattern.h"
#include "recipe/reader.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

using recipe::Node;

struct SplitFiles {
  std::string split;
  std::vector<std::string> patterns;
};

struct Config {
  std::string name = "default", folder;  // folder: data_dir
  bool is_default = false;
  std::vector<SplitFiles> files;
};

// The text between the first two lines of dashes.
std::string front_matter(const std::string& path) {
  constexpr std::size_t kMax = std::size_t{4} << 20;
  std::error_code unreadable;
  if (!fs::is_regular_file(path, unreadable) || fs::file_size(path, unreadable) > kMax) return {};
  std::string text = read_file(path);
  std::erase(text, '\r');
  if (!text.starts_with("---\n")) return {};
  const std::size_t end = text.find("\n---", 3);
  return end == text.npos ? "" : text.substr(4, end - 3);
}

std::string text_of(const Node* node) { return node && node->is_scalar() ? node->text : ""; }

std::vector<std::string> texts_of(const Node* node) {
  std::vector<std::string> out;
  if (node && node->is_scalar()) out.push_back(node->text);
  else if (node && node->kind == Node::Kind::list)
    for (const Node& item : node->items) out.push_back(text_of(&item));
  std::erase(out, "");
  return out;
}

// data_files: patterns, or a list of splits with theirs, or a map from split to patterns.
std::vector<SplitFiles> files_of(const Node& node) {
  std::vector<SplitFiles> out;
  if (node.kind == Node::Kind::map) {
    for (std::size_t i = 0; i < node.keys.size(); ++i) out.push_back({node.keys[i].text, texts_of(&node.items[i])});
  } else if (node.kind == Node::Kind::list && !node.items.empty() && node.items[0].kind == Node::Kind::map) {
    for (const Node& item : node.items) out.push_back({text_of(item.find("split")), texts_of(item.find("path"))});
  } else {
    out.push_back({"train", texts_of(&node)});
  }
  return out;
}

// Whether a path stays in its folder; one with braces, which could be written to hide "..", does not count.
bool stays_below(const fs::path& path) {
  return !path.is_absolute() && path.string().find('{') == std::string::npos &&
         std::ranges::find(path, "..") == path.end();
}

std::vector<Config> configs_of(const std::string& card) {
  const std::string text = front_matter(card);
  if (text.find("configs:") == text.npos) return {};
  std::vector<Config> out;
  try {
    recipe::Report report(card);
    const Node root = recipe::read_yaml(text, report);
    report.raise();
    const Node* list = root.find("configs");
    if (!list || list->kind != Node::Kind::list) return {};
    for (const Node& item : list->items) {
      Config config;
      if (const std::string name = text_of(item.find("config_name")); !name.empty()) config.name = name;
      config.is_default = recipe::canonical_bool(text_of(item.find("default"))) == "true";
      config.folder = text_of(item.find("data_dir"));
      if (const Node* files = item.find("data_files")) config.files = files_of(*files);
      if (!stays_below(config.folder)) {
        log_warning("{}: data_dir '{}' is not a folder below the dataset; configuration '{}' is ignored", card,
                    shown(config.folder), shown(config.name));
        continue;
      }
      if (!config.files.empty() || !config.folder.empty()) out.push_back(std::move(config));
    }
  } catch (const UserError& error) {
    log_warning("{}; the card is ignored", error.what());
  }
  return out;
}

// The configuration of this name; null where the name is that of a subdirectory.
const Config* chosen(const std::vector<Config>& configs, const std::string& folder,
                     const std::optional<std::string>& name, const std::vector<std::string>& files) {
  std::vector<std::string> names;
  for (const Config& config : configs) names.push_back(config.name);
  const auto found =
      name ? std::ranges::find(configs, *name, &Config::name) : std::ranges::find(configs, true, &Config::is_default);
  if (found != configs.end()) return &*found;
  if (name && std::ranges::any_of(files, [&](auto& file) { return file.starts_with(*name + "/"); })) return nullptr;
  if (name)
    throw UserError("{}: its card has no configuration '{}' (name: {}), and there is no subdirectory of that name{}",
                    folder, *name, *name, did_you_mean(*name, names));
  if (const auto usual = std::ranges::find(configs, "default", &Config::name); usual != configs.end()) return &*usual;
  if (configs.size() == 1) return configs.data();
  throw UserError("{}: its card has several configurations; choose one with name: {}", folder, fmt::join(names, ", "));
}

}  // namespace

std::optional<std::vector<std::string>> files_of_card(const std::string& folder, const std::optional<std::string>& name,
                                                      const std::string& split,
                                                      const std::optional<std::vector<std::string>>& files) {
  const std::vector<Config> configs = configs_of((fs::path(folder) / "README.md").string());
  if (configs.empty()) return std::nullopt;
  const std::vector<std::string> all = files ? *files : files_below(folder);
  const Config* config = chosen(configs, folder, name, all);
  if (!config) return std::nullopt;
  if (config->files.empty()) return {{config->folder}};
  const auto part = std::ranges::find(config->files, split, &SplitFiles::split);
  if (part == config->files.end()) {
    std::vector<std::string> splits;
    for (const SplitFiles& there : config->files) splits.push_back(there.split);
    throw UserError("{}: configuration '{}' of its card has no split '{}'; set split to {}", folder, config->name,
                    split, fmt::join(splits, ", "));
  }
  const std::string below = config->folder.empty() ? "" : config->folder + "/";
  std::vector<std::string> out;
  for (const std::string& pattern : part->patterns) {
    const std::size_t before = out.size();
    for (const std::string& path : all)
      if (fits_pattern(below + pattern, path)) out.push_back(path);
    if (out.size() == before)
      throw UserError("{}: there is no file '{}', which its card lists for split '{}'", folder, below + pattern, split);
  }
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

}  // namespace dml
