// Describes how the inputs of prepared data differ from those of an existing folder.
#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/json.h"
#include "data/input_text.h"
#include "data/prepare.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

// Whether two prepared folders have a data file of the same name.
bool share_a_file(const PreparedInputs& inputs, const Json& old) {
  auto file_of = [](std::string_view input) {  // "datasets[0] a.jsonl"
    const auto at = input.find("] ");
    return at == input.npos ? "" : input.substr(at);
  };
  return std::ranges::any_of(inputs, [&](const auto& input) {
    const std::string_view file = file_of(input.first);
    return !file.empty() && std::ranges::any_of(old.items(), [&](const auto& o) { return file_of(o.key()) == file; });
  });
}

}  // namespace

std::string what_changed(const PreparedInputs& inputs, const std::string& root) {
  std::vector<std::string> nearest;
  bool found = false;
  std::error_code error;
  std::vector<fs::path> folders;
  for (auto& entry : fs::directory_iterator(root, error))
    if (folders.size() < 1000 && entry.is_directory()) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  for (auto& folder : folders) {
    Json old;
    try {
      Json manifest = read_json((folder / "manifest.json").string());
      if (!manifest.is_object() || !manifest.contains("inputs") || !manifest["inputs"].is_object()) continue;
      old = manifest["inputs"];
    } catch (const UserError&) {
      continue;  // no prepared data, or damaged: no comparison
    }
    if (!share_a_file(inputs, old)) continue;  // of another recipe
    std::vector<std::string> changes;
    for (auto& [name, value] : inputs) {
      const std::string shown = input_name(name);
      if (!old.contains(name)) {
        changes.push_back(shown + " added");
      } else if (std::string before = text_or_json(old[name]); before != value) {
        bool brief = before.size() <= 24 && value.size() <= 24;
        changes.push_back(
            brief ? fmt::format("{} changed ({} → {})", shown, input_text(name, before), input_text(name, value))
                  : shown + " changed");
      }
    }
    for (auto& [name, value] : old.items())
      if (std::none_of(inputs.begin(), inputs.end(), [&](auto& input) { return input.first == name; }))
        changes.push_back(input_name(name) + " removed");
    if (!found || changes.size() < nearest.size()) nearest = std::move(changes);
    found = true;
  }
  if (!found || nearest.size() * 2 > inputs.size()) return "";
  const std::size_t shown = std::min<std::size_t>(4, nearest.size());
  std::string out =
      fmt::format("{}", fmt::join(nearest.begin(), nearest.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  return shown < nearest.size() ? fmt::format("{} and {} more", out, nearest.size() - shown) : out;
}

}  // namespace dml
