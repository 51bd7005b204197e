#include "pipeline/convert.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "checkpoint/adapter_io.h"
#include "checkpoint/bitsandbytes.h"
#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/mlx_adapter.h"
#include "checkpoint/model_config.h"
#include "checkpoint/model_report.h"
#include "core/directory.h"
#include "core/error.h"
#include "core/files.h"
#include "model/low_rank_init.h"
#include "model/weight_names.h"
#include "pipeline/companions.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kHead = "lm_head.weight";

Dtype parse_dtype(const std::string& text) {
  if (text == "f32" || text == "float32") return Dtype::f32;
  if (text == "f16" || text == "float16") return Dtype::f16;
  if (text == "bf16" || text == "bfloat16") return Dtype::bf16;
  throw UserError("--dtype: '{}' is not one of f32, f16, bf16", text);
}

// What f16 cannot hold is said before anything is written over it.
void append(ModelWriter& writer, const TensorView& tensor, Dtype to, const std::string& where) {
  if (tensor.dtype == to || !is_readable_float(tensor.dtype))
    return writer.append(tensor.bytes.data(), tensor.bytes.size());
  std::vector<float> values = tensor.floats(where);
  if (to == Dtype::f16)
    if (auto large = std::ranges::find_if(values, [](float x) { return std::abs(x) >= 65520; }); large != values.end())
      throw UserError("{}: tensor '{}' has values like {:g}, which f16 cannot hold; take bf16", where, tensor.name,
                      *large);
  writer.append_floats(values);
}

void convert_model(const Conversion& c, const std::string& output) {
  if (c.format) throw UserError("--format is for adapters; {} is a model", c.input);
  ModelSpec spec = read_model_spec(c.input);
  Json config = read_json(c.input + "/config.json", {.bytes = 1 << 20}), changes = Json::object();
  if (is_bitsandbytes_config(config, c.input + "/config.json"))
    throw UserError("{}: its weights are quantised; only models of f32, f16 and bf16 can be converted", c.input);
  ModelFiles files(c.input);
  require_weights(files, spec);
  const std::string embedding = weight_names(spec).front().tensor;
  const TensorView* head = files.find(kHead);
  const bool tie = c.tied == true && !spec.tied, untie = c.tied == false && spec.tied;
  if (tie && !std::ranges::equal(head->bytes, files.find(embedding)->bytes))
    throw UserError("--tied: head and embedding of {} differ; the model would be another one", c.input);
  if (tie || untie) changes["tie_word_embeddings"] = tie;

  std::optional<Dtype> to = c.dtype ? std::optional(parse_dtype(*c.dtype)) : std::nullopt;
  auto type_of = [&](const TensorView& t) { return to && is_readable_float(t.dtype) ? *to : t.dtype; };
  if (to) changes["dtype"] = *to == Dtype::bf16 ? "bfloat16" : *to == Dtype::f16 ? "float16" : "float32";
  std::vector<TensorInfo> infos;
  for (const TensorView& t : files.tensors())
    if (t.name != kHead || !(tie || spec.tied))
      infos.push_back({std::string(t.name), type_of(t), {t.shape.begin(), t.shape.end()}});
  if (untie) {
    const TensorView& table = *files.find(embedding);
    infos.push_back({std::string(kHead), type_of(table), {table.shape.begin(), table.shape.end()}});
  }
  ModelWriter writer(output, std::move(infos), c.max_shard_bytes.value_or(ModelWriter::kDefaultShard));
  for (const TensorInfo& info : writer.tensors())
    append(writer, *files.find(untie && info.name == kHead ? embedding : info.name), info.dtype, c.input);
  writer.commit();
  write_file(output + "/config.json", changes.empty() ? read_file(c.input + "/config.json", 1 << 20)
                                                      : pretty_json(rewrite_config(config, changes)));
  // Tokenizer, generation settings, licence and what else lies there, as it is.
  for (auto& entry : fs::directory_iterator(c.input)) {
    std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && name != "config.json" && !name.ends_with(".safetensors") &&
        !name.ends_with(".safetensors.index.json") && !name.ends_with(".bin"))
      fs::copy_file(entry.path(), fs::path(output) / name);
  }
}

void convert_adapter(const Conversion& c, const std::string& output) {
  for (auto [name, given] :
       {std::pair{"--dtype", c.dtype.has_value()}, std::pair{"--max-shard-size", c.max_shard_bytes.has_value()},
        std::pair{"--tied", c.tied.has_value()}})
    if (given) throw UserError("{} is for models; {} is an adapter", name, c.input);
  if (c.format != "peft" && c.format != "mlx") throw UserError("--format: an adapter becomes one of peft, mlx");
  std::string base = c.base_model.value_or(read_adapter_config_of(c.input).base_model);
  if (base.empty() || !file_exists(base + "/config.json"))
    throw UserError("{}: its base model '{}' is not at hand; name its directory with --base-model", c.input, base);
  ModelSpec spec = read_model_spec(base);
  spec.vocab = vocabulary_of(c.input, spec);
  Adapter adapter = read_adapter(c.input, spec);
  auto values = [&](const AdapterTensor& t) { return std::span<const float>(adapter.values.at(t.key)); };
  adapter.config.fan_in_fan_out = spec.conv1d_layout;
  if (c.format == "peft") {
    write_adapter(output, adapter.config, adapter.tensors, values);
    if (file_exists(c.input + "/README.md")) write_file(output + "/README.md", read_file(c.input + "/README.md"));
    return copy_companions(c.input, output);
  }
  if (starts_from_base(adapter.config.init))
    throw UserError(
        "{}: started by '{}', which changes the base; mlx-lm has no such adapters (dml merge makes a model of it)",
        c.input, adapter.config.init);
  write_mlx_adapter(output, adapter.config, spec, values);
  copy_companions(c.input, output);
}

}  // namespace

std::size_t parse_size(const std::string& text, const std::string& option) {
  double number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(end, text.data() + text.size());
  double factor = unit == "" || unit == "B" ? 1 : unit == "KB" ? 1e3 : unit == "MB" ? 1e6 : unit == "GB" ? 1e9 : 0;
  if (error != std::errc() || factor == 0 || !(number * factor >= 1) || number * factor > 1e15)
    throw UserError("{}: '{}' is not a size like 5GB or 500MB", option, text);
  return static_cast<std::size_t>(number * factor);
}

void convert(const Conversion& c) {
  require_directory(c.input);
  if (fs::exists(c.output) && !(fs::is_directory(c.output) && fs::is_empty(c.output)))
    throw UserError("--output: {} exists; choose a new directory", c.output);
  remove_left_over_of(c.output);
  DirectoryWriter out(c.output);
  if (file_exists(c.input + "/adapter_config.json")) convert_adapter(c, out.path());
  else convert_model(c, out.path());
  if (!out.commit()) throw UserError("--output: {} was created by another process", c.output);
}

}  // namespace dml
