#include "checkpoint/adapter_io.h"

#include <algorithm>
#include <filesystem>

#include "checkpoint/finite.h"
#include "checkpoint/mlx_adapter.h"
#include "checkpoint/safetensors.h"
#include "core/directory.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/shown.h"

namespace dml {
namespace {

constexpr JsonLimits kAdapterLimits{std::size_t{1} << 20, 16, 65536, 1u << 18};
constexpr std::size_t kMaxProblems = 12;

bool is_mlx(const std::string& directory) {
  return file_exists(path_in(directory, "adapters.safetensors")) &&
         !file_exists(path_in(directory, "adapter_model.safetensors"));
}

Json config_of(const std::string& directory) {
  if (directory.ends_with(".gguf"))
    throw UserError("{}: adapters are not read from GGUF files; give the PEFT folder that it was made from", directory);
  require_directory(directory);
  std::string path = path_in(directory, "adapter_config.json");
  if (!file_exists(path)) throw UserError("{}: no adapter_config.json; not an adapter folder", directory);
  return read_json(path, kAdapterLimits);
}

SafetensorsFile open_weights(const std::string& directory) {
  std::string path = path_in(directory, "adapter_model.safetensors");
  if (!file_exists(path) && file_exists(path_in(directory, "adapter_model.bin")))
    throw UserError(
        "{}: only pickled weights (adapter_model.bin), which can run code and are never read; save the adapter as "
        "safetensors",
        directory);
  if (!file_exists(path)) throw UserError("{}: no adapter_model.safetensors", directory);
  return SafetensorsFile(path);
}

constexpr std::string_view kPrefix = "base_model.model.";
/// Suffixes under which PEFT may save an embedding or head that it wraps, besides the plain weight.
constexpr const char* kEndForms[] = {".weight",
                                     ".modules_to_save.weight",
                                     ".original_module.weight",
                                     ".base_layer.weight",
                                     ".token_adapter.base_layer.weight",
                                     ".token_adapter.trainable_tokens_delta"};

/// The embedding or head to which a key belongs; null if to neither.
const WeightName* end_of(std::string_view key, const std::vector<WeightName>& ends) {
  for (const WeightName& w : ends)
    for (const char* form : kEndForms)
      if (key == fmt::format("{}{}{}", kPrefix, w.module(), form)) return &w;
  return nullptr;
}

/// Finds a tensor by its expected key, or by the other key that PEFT uses for a fully trained module.
const TensorView* find_in(const SafetensorsFile& file, const AdapterTensor& t) {
  const TensorView* found = file.find(t.key);
  if (found || t.kind != AdapterTensor::Kind::saved || !t.key.ends_with(".weight")) return found;
  return file.find(t.key.substr(0, t.key.size() - 7) + ".modules_to_save.weight");
}

/// Compares the tensors with the expected ones: one UserError with every tensor that is missing, unexpected or of
/// another shape.
void compare(const SafetensorsFile& file, const std::vector<AdapterTensor>& expected, const ModelSpec& spec) {
  std::vector<std::string> lines, keys;
  for (auto& e : expected) {
    keys.push_back(e.key);
    auto* t = find_in(file, e);
    if (!t) {
      if (e.trained()) lines.push_back(fmt::format("'{}' is missing", e.key));
    } else if (!std::ranges::equal(t->shape, e.shape)) {
      lines.push_back(fmt::format("'{}' is {}, expected {}", e.key, shape_text(t->shape), shape_text(e.shape)));
    } else if (!is_readable_float(t->dtype)) {
      lines.push_back(fmt::format("'{}' is {}, expected F32, F16 or BF16", e.key, safetensors_name(t->dtype)));
    }
  }
  std::ranges::sort(keys);
  const std::vector<WeightName> ends = embedding_and_head(spec);
  for (auto& t : file.tensors())
    if (!std::ranges::binary_search(keys, t.name) && !end_of(t.name, ends) && !t.name.ends_with(".base_layer.weight"))
      lines.push_back(
          fmt::format("'{}' {} belongs to no module of this adapter", shown(t.name, 160), shape_text(t.shape)));
  if (lines.empty()) return;
  std::string text = fmt::format("{}: the tensors do not match this model and adapter_config.json:", file.path());
  for (std::size_t i = 0; i < std::min(lines.size(), kMaxProblems); ++i) text += "\n  " + lines[i];
  if (lines.size() > kMaxProblems) text += fmt::format("\n  … and {} more", lines.size() - kMaxProblems);
  throw UserError(text);
}

/// Whether the file contains the base's embedding or head, as it does for a resized vocabulary.
bool holds_base_ends(const SafetensorsFile& file, const AdapterPlan& plan, const ModelSpec& spec) {
  return std::ranges::any_of(embedding_and_head(spec), [&](const WeightName& w) {
    auto has = [&](const char* form) { return file.find(fmt::format("{}{}{}", kPrefix, w.module(), form)); };
    return has(".original_module.weight") || has(".token_adapter.base_layer.weight") ||
           (has(".weight") && !plan.saves(w, spec));
  });
}

/// The last component of a path or of "owner/name@revision", without the revision.
std::string base_name(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  path.erase(0, path.rfind('/') + 1);
  return path.substr(0, path.find('@'));
}

}  // namespace

std::string base_of(const AdapterConfig& config) {
  const bool named = !config.revision.empty() && config.revision != "main" && !file_exists(config.base_model);
  return named ? config.base_model + "@" + config.revision : config.base_model;
}

bool holds_adapter(const std::string& path) {
  std::error_code error;
  return !std::filesystem::is_regular_file(path, error) && directory_has(path, "adapter_config.json");
}

AdapterConfig read_adapter_config_of(const std::string& directory, const std::string& model_type) {
  Json json = config_of(directory);
  std::string source = path_in(directory, "adapter_config.json");
  return is_mlx(directory) ? read_mlx_config(json, source, nullptr) : read_adapter_config(json, source, model_type);
}

Adapter read_adapter(const std::string& directory, const ModelSpec& spec, const std::string& base_model) {
  Json json = config_of(directory);
  std::string source = path_in(directory, "adapter_config.json");
  if (is_mlx(directory)) return read_mlx_adapter(directory, json, spec);

  Adapter out;
  out.config = read_adapter_config(json, source, spec.model_type);
  out.plan = plan_adapter(out.config, spec, source);
  SafetensorsFile file = open_weights(directory);
  out.config.resized = holds_base_ends(file, out.plan, spec);
  out.tensors = adapter_tensors(out.config, spec, out.plan);
  compare(file, out.tensors, spec);
  std::erase_if(out.tensors, [&](const AdapterTensor& t) { return !find_in(file, t); });
  for (auto& t : out.tensors) {
    const TensorView& stored = *find_in(file, t);
    if (const std::int64_t bad = first_not_finite(stored.dtype, stored.bytes); bad >= 0)
      refuse_not_finite(stored, directory, bad, "adapter");
    out.values[t.key] = stored.floats(file.path());
  }
  if (!base_model.empty() && !out.config.base_model.empty() &&
      base_name(base_model) != base_name(out.config.base_model))
    log_warning("{}: trained on base model '{}', used with '{}'", source, shown(out.config.base_model, 200),
                base_model);
  return out;
}

std::int64_t vocabulary_of(const std::string& directory, const ModelSpec& spec) {
  const std::string path = path_in(directory, "adapter_model.safetensors");
  std::int64_t rows = spec.vocab;
  if (!file_exists(path)) return rows;
  const SafetensorsFile file(path);
  const std::vector<WeightName> ends = embedding_and_head(spec);
  for (const TensorView& t : file.tensors())
    if (t.shape.size() == 2 && !t.name.ends_with("_delta") && end_of(t.name, ends))
      rows = std::max(rows, static_cast<std::int64_t>(t.shape[0]));
  return rows;
}

void write_adapter(const std::string& directory, const AdapterConfig& config, const std::vector<AdapterTensor>& tensors,
                   const AdapterValues& values, const BaseValues& base, DType dtype) {
  std::map<std::string, const AdapterTensor*> by_key;
  std::vector<TensorInfo> infos;
  auto stored = [&](const AdapterTensor& t) { return base && t.kind == AdapterTensor::Kind::base; };
  for (auto& t : tensors) {
    by_key[t.key] = &t;
    infos.push_back({t.key, stored(t) ? base(t).dtype : dtype, t.shape});
  }
  SafetensorsWriter out(path_in(directory, "adapter_model.safetensors"), std::move(infos));
  for (const TensorInfo& info : out.tensors()) {
    const AdapterTensor& t = *by_key.at(info.name);
    if (stored(t)) {
      out.append(base(t).data, info.bytes());
      continue;
    }
    const std::span<const float> v = values(t);
    DML_CHECK(std::ssize(v) == info.size(), "{}: {} values for shape {}", info.name, v.size(), shape_text(info.shape));
    out.append_floats(dtype, v);
  }
  out.commit();
  write_file(path_in(directory, "adapter_config.json"), adapter_config_text(config));
  write_file(path_in(directory, "README.md"), adapter_card(config));
}

std::string adapter_card(const AdapterConfig& c) {
  // A JSON string is a valid YAML string. A path of this machine is no name of the Hub.
  const bool local = c.base_model.empty() || c.base_model.starts_with('/') || file_exists(c.base_model);
  const std::string base = local ? "" : fmt::format("base_model: {}\n", dump(Json(c.base_model)));
  const char* pipeline = c.head == HeadKind::causal_lm                 ? "text-generation"
                         : c.head == HeadKind::sequence_classification ? "text-classification"
                                                                       : "token-classification";
  std::string targets = c.all_linear                ? "every linear layer"
                        : !c.target_pattern.empty() ? "`" + c.target_pattern + "`"
                                                    : fmt::format("{}", fmt::join(c.target_modules, ", "));
  return fmt::format(
      "---\n{}library_name: peft\npipeline_tag: {}\ntags:\n- lora\n---\n\n"
      "# LoRA adapter\n\nTrained with dml. Rank {}, alpha {}, dropout {}{}{}, on {}.\n",
      base, pipeline, c.r, c.alpha, c.dropout, c.use_rslora ? ", rsLoRA" : "", c.use_dora ? ", DoRA" : "", targets);
}

std::vector<float> transposed(std::span<const float> x, std::int64_t rows, std::int64_t cols) {
  std::vector<float> out(x.size());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j)
      out[static_cast<std::size_t>(j * rows + i)] = x[static_cast<std::size_t>(i * cols + j)];
  return out;
}

}  // namespace dml
