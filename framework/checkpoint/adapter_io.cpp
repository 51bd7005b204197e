#include "checkpoint/adapter_io.h"

#include <algorithm>
#include <filesystem>

#include "checkpoint/mlx_adapter.h"
#include "checkpoint/safetensors.h"
#include "core/closest.h"
#include "core/directory.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/utf8.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

constexpr JsonLimits kLimits{std::size_t{1} << 20, 16, 65536, 1u << 18};
constexpr std::size_t kMaxLines = 12;

std::string join(const std::string& directory, const char* name) { return (fs::path(directory) / name).string(); }

bool is_mlx(const std::string& directory) {
  return file_exists(join(directory, "adapters.safetensors")) &&
         !file_exists(join(directory, "adapter_model.safetensors"));
}

Json config_of(const std::string& directory) {
  require_directory(directory);
  std::string path = join(directory, "adapter_config.json");
  if (!file_exists(path)) throw UserError("{}: no adapter_config.json; not an adapter folder", directory);
  return read_json(path, kLimits);
}

SafetensorsFile open_weights(const std::string& directory) {
  std::string path = join(directory, "adapter_model.safetensors");
  if (!file_exists(path) && file_exists(join(directory, "adapter_model.bin")))
    throw UserError(
        "{}: only pickled weights (adapter_model.bin), which can run code and are never read; save the adapter as "
        "safetensors",
        directory);
  if (!file_exists(path)) throw UserError("{}: no adapter_model.safetensors", directory);
  return SafetensorsFile(path);
}

/// Keys of weights that PEFT adds and that say nothing new: the frozen copy of a targeted or resized embedding.
bool is_base_copy(std::string_view key) { return key.find(".base_layer.") != std::string_view::npos; }

/// Every tensor that is missing, of another shape, or not expected; all at once.
void compare(const SafetensorsFile& file, const std::vector<AdapterTensor>& expected) {
  std::vector<std::string> lines, keys;
  for (auto& e : expected) {
    keys.push_back(e.key);
    auto* t = file.find(e.key);
    if (!t) {
      lines.push_back(fmt::format("'{}' is missing", e.key));
    } else if (!std::ranges::equal(t->shape, e.shape)) {
      lines.push_back(fmt::format("'{}' is {}, expected {}", e.key, shape_text(t->shape), shape_text(e.shape)));
    } else if (!is_readable_float(t->dtype)) {
      lines.push_back(fmt::format("'{}' is {}, expected F32, F16 or BF16", e.key, dtype_name(t->dtype)));
    }
  }
  std::ranges::sort(keys);
  for (auto& t : file.tensors())
    if (!std::ranges::binary_search(keys, t.name) && !is_base_copy(t.name))
      lines.push_back(fmt::format("'{}' {} belongs to no module of this adapter",
                                  escape_controls(t.name).substr(0, 160), shape_text(t.shape)));
  if (lines.empty()) return;
  std::string text = fmt::format("{}: the adapter does not fit this model and its own config:", file.path());
  for (std::size_t i = 0; i < std::min(lines.size(), kMaxLines); ++i) text += "\n  " + lines[i];
  if (lines.size() > kMaxLines) text += fmt::format("\n  … and {} more", lines.size() - kMaxLines);
  throw UserError(text);
}

/// The last part of a path or of "owner/name".
std::string base_name(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

AdapterConfig read_adapter_config_of(const std::string& directory, const std::string& model_type) {
  Json json = config_of(directory);
  std::string source = join(directory, "adapter_config.json");
  return is_mlx(directory) ? read_mlx_config(json, source, nullptr) : read_adapter_config(json, source, model_type);
}

Adapter read_adapter(const std::string& directory, const ModelSpec& spec, const std::string& base_model) {
  Json json = config_of(directory);
  std::string source = join(directory, "adapter_config.json");
  if (is_mlx(directory)) return read_mlx_adapter(directory, json, spec);

  Adapter out;
  out.config = read_adapter_config(json, source, spec.model_type);
  out.plan = plan_adapter(out.config, spec, source);
  out.tensors = adapter_tensors(out.config, out.plan);
  SafetensorsFile file = open_weights(directory);
  compare(file, out.tensors);
  for (auto& t : out.tensors) out.values[t.key] = file.at(t.key).floats(file.path());
  if (!base_model.empty() && !out.config.base_model.empty() &&
      base_name(base_model) != base_name(out.config.base_model))
    log_warning("{}: made for base model '{}', used with '{}'", source,
                escape_controls(out.config.base_model).substr(0, 200), base_model);
  return out;
}

void write_adapter(const std::string& directory, const AdapterConfig& config, const std::vector<AdapterTensor>& tensors,
                   const AdapterValues& values, Dtype dtype) {
  std::map<std::string, const AdapterTensor*> by_key;
  std::vector<TensorInfo> infos;
  for (auto& t : tensors) {
    by_key[t.key] = &t;
    infos.push_back({t.key, dtype, t.shape});
  }
  write_safetensors(join(directory, "adapter_model.safetensors"), std::move(infos),
                    [&](const TensorInfo& info) { return values(*by_key.at(info.name)); });
  write_file(join(directory, "adapter_config.json"), adapter_config_text(config));
  write_file(join(directory, "README.md"), adapter_card(config));
}

std::string adapter_card(const AdapterConfig& c) {
  std::string base = c.base_model.empty() ? "null" : dump(Json(c.base_model));  // a JSON text is a YAML text
  std::string targets = c.all_linear                ? "every linear layer"
                        : !c.target_pattern.empty() ? "`" + c.target_pattern + "`"
                                                    : fmt::format("{}", fmt::join(c.target_modules, ", "));
  return fmt::format(
      "---\nbase_model: {}\nlibrary_name: peft\npipeline_tag: text-generation\ntags:\n- lora\n---\n\n"
      "# LoRA adapter\n\nTrained with dml. Rank {}, alpha {}, dropout {}{}{}, on {}.\n",
      base, c.r, c.alpha, c.dropout, c.use_rslora ? ", rsLoRA" : "", c.use_dora ? ", DoRA" : "", targets);
}

}  // namespace dml
