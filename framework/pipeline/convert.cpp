#include "pipeline/convert.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "assembly/companions.h"
#include "assembly/model_location.h"
#include "checkpoint/adapter_io.h"
#include "checkpoint/bitsandbytes.h"
#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/finite.h"
#include "checkpoint/mlx_adapter.h"
#include "checkpoint/model_config.h"
#include "checkpoint/model_report.h"
#include "checkpoint/safetensors_dtype.h"
#include "core/directory.h"
#include "core/error.h"
#include "core/files.h"
#include "core/left_over.h"
#include "core/model_file_names.h"
#include "exchange/gguf_adapter.h"
#include "exchange/gguf_export.h"
#include "exchange/gguf_file.h"
#include "exchange/modelfile.h"
#include "model/adapter_plan.h"
#include "model/low_rank_init.h"
#include "model/weight_names.h"
#include "pipeline/output_folder.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

DType parse_dtype(const std::string& text) {
  if (const auto dtype = weight_dtype_named(text)) return *dtype;
  throw UserError("--dtype: '{}' is not one of f32, f16, bf16; quantized types need --format gguf", text);
}

// The option that set Conversion::tied.
const char* tied_option(const Conversion& c) { return c.tied == false ? "--untied" : "--tied"; }

// What no weight may be, and what f16 cannot hold, is said before anything is written over it.
void append(ModelWriter& writer, const TensorView& tensor, DType to, const std::string& where) {
  const bool as_it_is = !tensor.quantized() && (tensor.dtype == to || !is_readable_float(tensor.dtype));
  const std::vector<float> values = as_it_is ? std::vector<float>() : tensor.floats(where);
  if (const std::int64_t bad = as_it_is ? first_not_finite(tensor.dtype, tensor.bytes)
                                        : first_not_finite(DType::f32, std::as_bytes(std::span(values)));
      bad >= 0)
    refuse_not_finite(tensor, where, bad, "model");
  if (as_it_is) return writer.append(tensor.bytes.data(), tensor.bytes.size());
  if (to == DType::f16)
    if (auto large = std::ranges::find_if(values, [](float x) { return std::abs(x) >= 65520; }); large != values.end())
      throw UserError("{}: tensor '{}' has values like {:g}, which f16 cannot hold; use bf16", where, tensor.name,
                      *large);
  writer.append_floats(values);
}

// A model folder or a GGUF file.
struct InputModel {
  std::string folder;  // with config and tokenizer
  ModelSpec spec;
  Json config;
  ModelFiles files;

  explicit InputModel(const std::string& input)
      : folder(model_directory(input)),
        spec(read_model_spec(folder)),
        config(read_json(folder + "/config.json", {.bytes = 1 << 20})),
        files(open_model_files(input, spec)) {
    if (is_bitsandbytes_config(config, folder + "/config.json"))
      throw UserError("{}: its weights are quantized; only models of f32, f16 and bf16 can be converted", input);
    fit_to_files(spec, files);
    require_weights(files, spec);
  }
  // The element type that most matrices have; float32 where they are quantized.
  DType dtype() const {
    for (const TensorView& t : files.tensors())
      if (t.shape.size() == 2 && is_plain_float(t.dtype)) return t.dtype;
    return DType::f32;
  }
};

void convert_model(const Conversion& c, const std::string& output) {
  if (c.format && c.format != "safetensors")
    throw UserError("--format: '{}' is not for models; {} becomes gguf or safetensors", *c.format, c.input);
  const InputModel in(c.input);
  const ModelSpec& spec = in.spec;
  Json changes = Json::object();
  const bool reward = spec.head != HeadKind::causal_lm;
  if (c.tied && reward)
    throw UserError("{}: {} is a reward model, which has no head over the vocabulary", tied_option(c), c.input);
  const std::vector<WeightName> ends = embedding_and_head(spec);
  const std::string &embedding = ends[0].tensor, &head = ends[1].tensor;
  const bool tie = c.tied == true && !spec.tied, untie = c.tied == false && spec.tied;
  if (tie && !std::ranges::equal(in.files.find(head)->bytes, in.files.find(embedding)->bytes))
    throw UserError("--tied: head and embedding of {} differ, so tying them would change the model", c.input);
  if (tie || untie) changes["tie_word_embeddings"] = tie;

  std::optional<DType> to = c.dtype ? std::optional(parse_dtype(*c.dtype)) : std::nullopt;
  // Quantized matrices become plain. Vectors of GGUF files are float32 whatever the matrices' type.
  if (!to && (is_gguf_file(c.input) || std::ranges::any_of(in.files.tensors(), &TensorView::quantized)))
    to = in.dtype();
  auto type_of = [&](const TensorView& t) { return to && t.readable() ? *to : t.dtype; };
  if (to) changes["dtype"] = transformers_name(*to);
  std::vector<TensorInfo> infos;
  for (const TensorView& t : in.files.tensors())
    if (t.name != head || !(tie || spec.tied))
      infos.push_back({std::string(t.name), type_of(t), {t.shape.begin(), t.shape.end()}});
  if (untie) {
    const TensorView& table = *in.files.find(embedding);
    infos.push_back({head, type_of(table), {table.shape.begin(), table.shape.end()}});
  }
  ModelWriter writer(output, std::move(infos), c.max_shard_bytes.value_or(ModelWriter::kDefaultShard));
  for (const TensorInfo& info : writer.tensors())
    append(writer, *in.files.find(untie && info.name == head ? embedding : info.name), info.dtype, c.input);
  writer.commit();
  write_file(output + "/config.json", changes.empty() ? read_file(in.folder + "/config.json", 1 << 20)
                                                      : pretty_json(rewrite_config(in.config, changes)));
  // Copies tokenizer, generation settings, license and other files unchanged, but no record of the run.
  for (auto& entry : fs::directory_iterator(in.folder)) {
    std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && name != "config.json" && !name.ends_with(".safetensors") &&
        !name.ends_with(".safetensors.index.json") && !name.ends_with(".bin") && !is_record_of_a_run(name))
      fs::copy_file(entry.path(), fs::path(output) / name);
    else if (name == kTemplateFolder) fs::copy(entry.path(), fs::path(output) / name);
  }
}

void convert_to_gguf(const Conversion& c) {
  for (auto [name, given] :
       {std::pair{"--max-shard-size", c.max_shard_bytes.has_value()}, std::pair{tied_option(c), c.tied.has_value()}})
    if (given) throw UserError("{} does not work with --format gguf", name);
  if (fs::exists(c.output)) throw UserError("--output: {} exists; choose a new file", c.output);
  remove_left_over_of(c.output);
  const InputModel in(c.input);
  const GgufFileType& type = gguf_file_type(c.dtype.value_or(std::string(ggml_type(in.dtype()).name)));
  const fs::path input(real_path(c.input));
  const std::string name = input.extension() == ".gguf" ? input.stem() : input.filename();
  make_parent_directories(c.output);
  log_gguf(c.output, type, write_gguf({name, in.folder, in.spec, type, rows_of_files(in.files)}, c.output));
  write_modelfile(c.output, in.folder);
}

// mlx-lm and llama.cpp compute with the embedding and the head of the base, not with those that PEFT saves beside an
// adapter once tokens were added. `spec`: of the base.
void require_ends_of_base(const Adapter& adapter, const std::string& base, const ModelSpec& spec, const Conversion& c) {
  if (starts_from_base(adapter.config.init)) return;  // refused for that; what is saved is the base without the start
  const bool gguf = c.format == "gguf";
  auto refuse = [&](const std::string& what) {
    throw UserError("{}: {} cannot store {}; dml merge{} makes a model of this one", c.input,
                    gguf ? "GGUF adapters" : "mlx-lm adapters", what, gguf ? " --format gguf" : "");
  };
  std::optional<ModelFiles> files;
  for (const AdapterTensor& t : adapter.tensors) {
    if (t.kind != AdapterTensor::Kind::base) continue;
    if (t.shape[0] != spec.vocab)
      refuse(fmt::format("tokens that were added (this adapter has {} rows, its base {})", t.shape[0], spec.vocab));
    if (!files) files.emplace(open_model_files(base, spec));
    const TensorView* own = files->find(t.module);
    if (!own && spec.tied) own = files->find(embedding_and_head(spec)[0].tensor);
    if (own && own->floats(base) != adapter.values.at(t.key))
      refuse(fmt::format("base weights, and the '{}' in this adapter's file differs from that of {}", t.module, base));
  }
}

// An adapter and the model it is for.
struct InputAdapter {
  ModelSpec spec;
  Adapter adapter;

  explicit InputAdapter(const Conversion& c) {
    const AdapterConfig config = read_adapter_config_of(c.input);
    if (config.head != HeadKind::causal_lm)
      throw UserError(
          "{}: is the adapter of a reward model, whose head other formats do not hold; dml merge makes a model of it",
          c.input);
    const std::string base = c.base_model.value_or(base_of(config));
    if (base.empty() || !file_exists(model_directory(base) + "/config.json"))
      throw UserError("{}: its base model '{}' was not found; give its directory with --base-model", c.input, base);
    const ModelSpec own = read_model_spec(model_directory(base));
    spec = own;
    spec.vocab = vocabulary_of(c.input, own);
    adapter = read_adapter(c.input, spec);
    if (c.format != "peft") require_ends_of_base(adapter, base, own, c);
    adapter.config.fan_in_fan_out = spec.stored.in_out;
  }
};

void convert_adapter_to_gguf(const Conversion& c) {
  if (fs::exists(c.output)) throw UserError("--output: {} exists; choose a new file", c.output);
  remove_left_over_of(c.output);
  const InputAdapter in(c);
  make_parent_directories(c.output);
  write_gguf_adapter(c.output, in.adapter, in.spec, gguf_file_type(c.dtype.value_or("f32")), c.input);
}

void convert_adapter(const Conversion& c, const std::string& output) {
  if (c.format != "peft" && c.format != "mlx") throw UserError("--format: an adapter becomes one of peft, mlx, gguf");
  if (c.dtype) throw UserError("--dtype is for models and GGUF files; {} is an adapter", c.input);
  const InputAdapter in(c);
  const ModelSpec& spec = in.spec;
  const Adapter& adapter = in.adapter;
  auto values = [&](const AdapterTensor& t) { return std::span<const float>(adapter.values.at(t.key)); };
  if (c.format == "peft") {
    write_adapter(output, adapter.config, adapter.tensors, values);
    if (file_exists(c.input + "/README.md")) write_file(output + "/README.md", read_file(c.input + "/README.md"));
    return copy_companions(c.input, output);
  }
  if (starts_from_base(adapter.config.init))
    throw UserError(
        "{}: initialized with '{}', which changes the base weights; mlx-lm has no such adapters; use dml merge instead",
        c.input, adapter.config.init);
  write_mlx_adapter(output, adapter.config, spec, values);
  copy_companions(c.input, output);
}

}  // namespace

std::vector<std::string> stored_types() {
  std::vector<std::string> out;
  for (const GgufFileType& type : gguf_file_types()) out.emplace_back(type.name);
  return out;
}

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
  if (is_gguf_file(c.input)) require_model(GgufFile(c.input));
  else require_directory(c.input);
  if (is_gguf_file(c.input) && c.format != "gguf" && c.format.value_or("safetensors") != "safetensors")
    throw UserError("--format: '{}' is for adapters; {} is a model", *c.format, c.input);
  const bool is_adapter = holds_adapter(c.input);
  if (is_adapter)
    for (auto [name, given] :
         {std::pair{"--max-shard-size", c.max_shard_bytes.has_value()}, std::pair{tied_option(c), c.tied.has_value()}})
      if (given) throw UserError("{} is for models; {} is an adapter", name, c.input);
  if (is_adapter && !c.format) throw UserError("{} is an adapter: give --format peft, mlx or gguf", c.input);
  if (!is_adapter && c.base_model) throw UserError("--base-model is for adapters, and {} is not an adapter", c.input);
  if (c.format == "gguf") return is_adapter ? convert_adapter_to_gguf(c) : convert_to_gguf(c);
  if (fs::exists(c.output) && !(fs::is_directory(c.output) && fs::is_empty(c.output)))
    throw UserError("--output: {} exists; choose a new directory", c.output);
  remove_left_over_of(c.output);
  DirectoryWriter out(c.output);
  if (is_adapter) convert_adapter(c, out.path());
  else convert_model(c, out.path());
  if (!out.commit()) throw UserError("--output: {} was created by another process", c.output);
}

}  // namespace dml
