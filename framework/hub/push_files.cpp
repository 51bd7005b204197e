// Which files of a folder are pushed: those of a model, an adapter or a dataset, or those that the user names.
#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/model_file_names.h"
#include "core/row_file_names.h"
#include "hub/file_patterns.h"
#include "hub/listing.h"
#include "hub/push.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

bool is_model_file(const std::string& path) {
  static const std::vector<std::string> others{
      "*.safetensors", "*.safetensors.index.json", "*processor_config.json", "README.md", "LICENSE*", "*.gguf",
      "Modelfile"};
  // Not of the model: optimizer state, the run's state, prepared data.
  static const std::vector<std::string> state{
      "optimizer*", "state*.safetensors", "residual-*", "completions.safetensors", "relora*", "ids.safetensors"};
  const fs::path name(path);
  if (name.has_parent_path()) return name.parent_path() == kTemplateFolder && name.extension() == kTemplateExtension;
  const auto listed = [&](const auto& names) { return std::ranges::find(names, path) != names.end(); };
  return listed(kConfigFiles) || listed(kTokenizerFiles) || listed(kOtherTokenizerFiles) ||
         (fits_any(others, path) && !fits_any(state, path));
}

// Whether a file makes its folder that of a model, an adapter or a tokenizer; a card or a config.json alone does not.
bool makes_model(const std::string& path) {
  static const std::vector<std::string> results{"*.safetensors", "*.gguf", "adapter_config.json"};
  const fs::path name(path);
  return is_model_file(path) && !name.has_parent_path() &&
         (std::ranges::find(kTokenizerFiles, path) != kTokenizerFiles.end() || fits_any(results, path));
}

bool is_dataset_file(const std::string& path) {
  static const std::vector<std::string> others{"README.md", "LICENSE*"};
  return has_row_extension(path) || is_archive_name(path) || fits_any(others, path);
}

bool belongs(HubKind kind, const std::string& path) {
  return kind == HubKind::dataset ? is_dataset_file(path) : is_model_file(path);
}

// A folder of something else, such as a source tree, is not pushed: its README.md or LICENSE would make a repository.
void require_result(const PushRequest& request, const FilesToPush& found) {
  const bool dataset = request.kind == HubKind::dataset;
  const auto is_result = [&](const LocalFile& file) {
    return dataset ? has_row_extension(file.path) || is_archive_name(file.path) : makes_model(file.path);
  };
  if (std::ranges::any_of(found.files, is_result)) return;
  throw UserError("{}: nothing to push: it has no {}; --include chooses other files{}", request.folder,
                  dataset ? "file of rows" : "weights, adapter or tokenizer",
                  dataset ? "" : ", --dataset pushes files of rows");
}

}  // namespace

FilesToPush files_to_push(const PushRequest& request) {
  FilesToPush out;
  std::error_code error, unreadable;
  if (!fs::is_directory(request.folder, error)) throw UserError("{}: no such directory", request.folder);
  for (fs::recursive_directory_iterator it(request.folder, error), end; !error && it != end; it.increment(error)) {
    const std::string path = it->path().lexically_relative(request.folder).string();
    if (it->path().filename().string().starts_with('.')) {
      if (it->is_directory(unreadable)) it.disable_recursion_pending();
      continue;
    }
    const bool wanted = request.include.empty() ? belongs(request.kind, path) : fits_any(request.include, path);
    if (!it->is_regular_file(unreadable)) continue;
    if (wanted && is_safe_hub_path(path)) out.files.push_back({path, it->file_size(unreadable)});
    else if (request.include.empty()) out.left_out.push_back(path);
  }
  if (error) throw IoError(fmt::format("{}: cannot be read: {}", request.folder, error.message()));
  if (!request.include.empty() && out.files.empty())
    throw UserError("{}: nothing to push: no file matches --include", request.folder);
  if (request.include.empty()) require_result(request, out);
  std::ranges::sort(out.files, {}, &LocalFile::path);
  std::ranges::sort(out.left_out);
  return out;
}

}  // namespace dml
