#include "assembly/base_model.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "assembly/model_head.h"
#include "assembly/model_location.h"
#include "assembly/unfrozen.h"
#include "checkpoint/bitsandbytes.h"
#include "checkpoint/model_config.h"
#include "checkpoint/model_report.h"
#include "core/arena.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/parallel.h"
#include "hub/cache.h"
#include "kernels/quant_nf4.h"
#include "model/weight_names.h"

namespace dml {

struct ConvertedTensors {
  std::vector<Arena> blocks;
  std::map<std::pair<std::string, DType>, const void*> values;
};

namespace {

// Memory is touched first by the threads that write it.
const void* convert(const TensorView& tensor, DType to, ConvertedTensors& out) {
  auto [known, fresh] = out.values.try_emplace({std::string(tensor.name), to}, nullptr);
  if (!fresh) return known->second;
  std::int64_t n = tensor.size(), width = dtype_bytes(to, 1);
  std::byte* block = out.blocks.emplace_back(static_cast<std::size_t>(n * width)).take<std::byte>(n * width).data();
  known->second = block;
  parallel_ranges(n, 1 << 16, [&](std::int64_t first, std::int64_t last) {
    std::vector<float> values(static_cast<std::size_t>(last - first));
    tensor.read(first, last - first, values.data());
    write_floats(to, values.data(), last - first, block + first * width);
  });
  release_pages(tensor.bytes);
  return block;
}

DType storage_of(const TensorView& tensor, std::optional<DType> storage) {
  const DType direct = tensor.quantized() || is_plain_float(tensor.dtype) ? tensor.dtype : DType::f32;
  // The model copies vectors to float32 in any case; only matrices are stored in another type.
  return tensor.shape.size() >= 2 ? storage.value_or(direct) : direct;
}

bool used_as_it_lies(const TensorView& tensor, std::optional<DType> storage) {
  return tensor.dtype == storage_of(tensor, storage) && tensor.aligned();
}

std::optional<StoredTensor> stored(const TensorView* tensor, std::optional<DType> storage, ConvertedTensors& converted,
                                   const std::string& where) {
  if (!tensor) return std::nullopt;
  if (!tensor->readable())
    throw UserError("{}: tensor '{}' is stored as {}; only F32, BF16, F16 and F64 can be read", where, tensor->name,
                    safetensors_name(tensor->dtype));
  StoredTensor out;
  out.shape.assign(tensor->shape.begin(), tensor->shape.end());
  out.dtype = storage_of(*tensor, storage);
  out.data = used_as_it_lies(*tensor, storage) ? static_cast<const void*>(tensor->bytes.data())
                                               : convert(*tensor, out.dtype, converted);
  return out;
}

// Codes and powers of two of experts, used where they are mapped; report_weights() has seen both.
bool is_mxfp4(const TensorView& t) { return t.dtype == DType::u8 && t.name.ends_with(kMxfp4Codes); }

StoredTensor mxfp4(const TensorView& codes, const ModelFiles& files) {
  StoredTensor out{DType::mxfp4, {codes.shape.begin(), codes.shape.end()}, codes.bytes.data()};
  out.scale_codes = reinterpret_cast<const std::uint8_t*>(files.find(mxfp4_scales_of(codes.name))->bytes.data());
  return out;
}

// Tensors that are trained themselves, in full or by rows: frozen_storage does not apply to them.
std::set<std::string> trained_whole(const Training& training, const BaseModel& base) {
  std::set<std::string> names;
  if (training.full)
    for (const WeightName& w : weight_names(base.spec))
      if (!training.unfrozen || training.unfrozen(w.tensor, w.tensor_shape()[0])) names.insert(w.tensor);
  if (training.adapter)
    for (const WeightName& w : plan_adapter(*training.adapter, base.spec, base.directory).saved) names.insert(w.tensor);
  return names;
}

std::string init_name(LoraInit init) {
  switch (init) {
    case LoraInit::kaiming:
      return "true";
    case LoraInit::gaussian:
      return "gaussian";
    case LoraInit::random:
      return "false";
    case LoraInit::pissa:
      return "pissa";
    case LoraInit::olora:
      return "olora";
    case LoraInit::loftq:
      return "loftq";
  }
  return "true";
}

}  // namespace

TensorSource BaseModel::source(std::optional<DType> storage, const std::set<std::string>& whole) const {
  if (!files) return {};
  const std::vector<WeightName> ends = embedding_and_head(spec);
  std::shared_ptr<ConvertedTensors> known = converted.lock();
  if (!known) converted = known = std::make_shared<ConvertedTensors>();
  return [from = files, small = quantized, larger = resized, known = std::move(known), storage, whole,
          head = ends[1].tensor, shared = spec.tied ? ends[0].tensor : std::string()](
             const std::string& asked) -> std::optional<StoredTensor> {
    auto replaced = [&](const std::string& name) { return larger && larger->contains(name); };
    // The head of a tied model is the embedding, even if the files hold a separate tensor.
    const std::string& name = asked == head && !shared.empty() && !replaced(asked) ? shared : asked;
    if (replaced(name)) {
      const ResizedTensor& tensor = larger->at(name);
      return StoredTensor{tensor.dtype, tensor.shape, tensor.bytes.data()};
    }
    if (auto tensor = small && !whole.contains(name) ? small->find(name) : std::nullopt) return tensor;
    const TensorView* found = from->find(name);
    if (found && is_mxfp4(*found)) return mxfp4(*found, *from);
    return stored(found, whole.contains(name) ? std::nullopt : storage, *known, from->directory());
  };
}

std::size_t BaseModel::bytes() const {
  std::size_t total = quantized ? quantized->bytes() : 0;
  if (files)
    for (const TensorView& t : files->tensors())
      if (std::string name(t.name); !(quantized && (quantized->find(name) || is_bitsandbytes_part(name))))
        total += t.bytes.size();
  return total;
}

void BaseModel::release() const {
  if (files)
    for (const TensorView& t : files->tensors()) release_pages(t.bytes);
}

DType BaseModel::dtype() const {
  if (files)
    for (const TensorView& t : files->tensors())
      if (t.shape.size() == 2 && is_plain_float(t.dtype)) return t.dtype;
  return DType::f32;
}

BaseModel open_base_files(const ModelSection& section) {
  BaseModel base;
  bool scratch = section.reinit_weights || section.base_model.empty();
  const std::string config_name = section.base_model_config.value_or(section.base_model);
  require_parts(config_name, {.weights = false, .tokenizer = false});
  if (!scratch) require_parts(section.base_model, {.config = false, .tokenizer = false});
  const std::string config_dir = model_directory(config_name);
  if (config_dir.empty()) {
    base.config = section.model_config;
    base.spec = read_model_config(base.config, "model_config");
  } else {
    if (!file_exists(config_dir))
      throw UserError("{}: {}; base_model must be a directory with config.json and *.safetensors, or a GGUF file{}",
                      config_dir, missing_path(config_dir) ? "no such directory" : path_problem(config_dir),
                      missing_advice(HubKind::model, config_dir));
    base.config = read_json(config_dir + "/config.json", {.bytes = 1 << 20});
    if (section.model_config.empty()) {
      base.spec = read_model_spec(config_dir);
    } else {
      std::vector<Token> eos = read_model_spec(config_dir).eos;
      base.config = rewrite_config(base.config, section.model_config);
      base.spec = read_model_config(base.config, config_dir + "/config.json with model_config");
      if (!section.model_config.contains("eos_token_id")) base.spec.eos = eos;
    }
  }
  set_head(base.spec, section, config_dir.empty() ? "model_config" : config_dir);
  if (!scratch) {
    base.directory = section.base_model;
    base.files = std::make_shared<ModelFiles>(open_model_files(section.base_model, base.spec));
    fit_to_files(base.spec, *base.files);
    if (!is_bitsandbytes_config(base.config, config_dir + "/config.json")) require_weights(*base.files, base.spec);
  }
  return base;
}

void check_stored_base(const BaseModel& base, const ModelSection& section, const AdapterSection& adapter) {
  if (base.files && is_bitsandbytes_config(base.config, section.base_model) && !adapter.load_in_4bit)
    throw UserError("{}: its weights are stored as nf4, which needs adapter: qlora", section.base_model);
}

void quantize_base(BaseModel& base, const ModelSection& section, const AdapterSection& adapter) {
  if (!base.files) return;
  check_stored_base(base, section, adapter);
  if (!adapter.load_in_4bit && !adapter.load_in_8bit) return;
  if (std::ranges::any_of(base.files->tensors(), &TensorView::quantized)) {
    log_info("{}: the base keeps the quantization of its file; it is not quantized again", base.directory);
    return;
  }
  const auto scheme = adapter.load_in_4bit ? DType::nf4 : DType::int8;
  base.quantized = std::make_shared<QuantizedBase>(base.spec, *base.files, scheme, adapter.quantized_cache_path);
  const QuantizedBase& q = *base.quantized;
  log_info("Quantized base: {}, {:.2f} bits for each of {} weights: {}", q.scheme_name(), q.bits(), q.weights(),
           q.note());
  for (const std::string& name : q.left_out())
    log_info("{} is not quantized: it cannot be split into whole blocks of {} weights", name, kernels::kNf4Block);
}

BaseModel open_base_model(const ModelSection& section, const AdapterSection& adapter) {
  BaseModel base = open_base_files(section);
  quantize_base(base, section, adapter);
  return base;
}

std::unique_ptr<CausalLm> build_on(const BaseModel& base, std::optional<DType> storage, const Training& training,
                                   const std::string& name) {
  auto source = std::make_shared<TensorSource>(base.source(storage, trained_whole(training, base)));
  auto model = build_model(base.spec, *source, training, name);
  model->backing = source;
  return model;
}

AdapterConfig adapter_config(const AdapterSection& s, const std::string& base_model) {
  AdapterConfig c;
  c.r = s.lora_r;
  c.alpha = s.lora_alpha;
  c.dropout = s.lora_dropout;
  c.target_modules = s.lora_target_modules.names;
  c.target_pattern = s.lora_target_modules.regex;
  c.all_linear = s.lora_target_linear;
  c.target_parameters = s.lora_target_parameters;
  c.rank_pattern = s.lora_rank_pattern;
  c.alpha_pattern = s.lora_alpha_pattern;
  c.modules_to_save = s.lora_modules_to_save;
  c.ensure_weight_tying = s.peft_ensure_weight_tying;
  if (!s.peft_trainable_token_indices.tokens.empty())
    c.token_rows.push_back({"", s.peft_trainable_token_indices.tokens});
  for (auto& [module, tokens] : s.peft_trainable_token_indices.by_module) c.token_rows.push_back({module, tokens});
  if (!s.peft_layers_to_transform.empty()) c.layers_to_transform = s.peft_layers_to_transform;
  c.layers_pattern = s.peft_layers_pattern;
  c.use_rslora = s.peft_use_rslora;
  c.use_dora = s.peft_use_dora;
  c.fan_in_fan_out = s.lora_fan_in_fan_out;
  c.init = init_name(s.peft_init_lora_weights);
  c.loftq_iterations = s.loftq_iter;
  set_base(c, base_model);
  return c;
}

Training training_of(const AdapterSection& section, const std::string& base_model, std::int64_t seed) {
  Training t;
  t.seed = static_cast<std::uint64_t>(seed);
  if (section.adapter == AdapterKind::none) {
    t.full = true;
    t.unfrozen = unfrozen_rule(section.unfrozen_parameters);
  } else {
    t.adapter = adapter_config(section, base_model);
  }
  return t;
}

std::optional<DType> source_storage(const ModelSection& model, const AdapterSection& adapter) {
  return adapter.relora ? std::nullopt : model.frozen_storage;
}

void load_adapter(CausalLm& model, const Adapter& adapter, const std::string& directory) {
  std::vector<float> converted;
  load_parameters(
      model.parameters,
      [&](const std::string& name) -> std::optional<StoredTensor> {
        auto tensor = std::ranges::find(adapter.tensors, name, &AdapterTensor::key);
        if (tensor == adapter.tensors.end()) return std::nullopt;
        if (const AdaptedExperts* experts = adapter.plan.experts_of(name)) {
          const ExpertParameter& p = experts->parameter;
          converted = expert_rows(p, experts->r, adapter.values.at(name));
          return StoredTensor{DType::f32, {p.experts * p.rows, experts->r}, converted.data()};
        }
        return StoredTensor{DType::f32, tensor->shape, adapter.values.at(name).data()};
      },
      directory);
}

bool vocabulary_is_resized(const BaseModel& base) {
  const TensorView* table = base.files ? base.files->find(embedding_and_head(base.spec)[0].tensor) : nullptr;
  return table && table->shape[0] != base.spec.vocab;
}

TrainableModel make_trainable_model(const BaseModel& base, const ModelSection& model, const AdapterSection& adapter,
                                    std::int64_t seed, const TrainedValues& values) {
  Training training = training_of(adapter, model.base_model, seed);
  if (training.full) training.values = values;
  std::optional<Adapter> start;
  if (training.adapter && adapter.lora_model_dir) {
    start = read_adapter(*adapter.lora_model_dir, base.spec, model.base_model);
    // Rank and targets come from the adapter; dropout from the recipe.
    double dropout = training.adapter->dropout;
    training.adapter = start->config;
    training.adapter->dropout = dropout;
    require_head(*training.adapter, base.spec, *adapter.lora_model_dir);
  }
  if (training.adapter && training.adapter->fan_in_fan_out != base.spec.stored.in_out) {
    // The layout is the family's; PEFT corrects the key, too.
    if (training.adapter->fan_in_fan_out)
      log_warning("lora_fan_in_fan_out is ignored: this {} model stores weights as (out, in)", base.spec.model_type);
    training.adapter->fan_in_fan_out = base.spec.stored.in_out;
  }
  if (training.adapter) {
    training.adapter = resolved_config(std::move(*training.adapter), base.spec);
    training.adapter->resized = vocabulary_is_resized(base);
    training.adapter->head = base.spec.head;
  }
  auto built = build_on(base, source_storage(model, adapter), training, base.files ? base.directory : "model_config");
  if (start) load_adapter(*built, *start, *adapter.lora_model_dir);
  base.release();  // pages of copied tensors can be dropped
  return {std::move(built), std::move(training.adapter)};
}

FrozenMemory frozen_memory(const BaseModel& base, const CausalLm& model, std::optional<DType> storage) {
  FrozenMemory m;
  for (auto& values : model.owned) m.copied += values.size() * sizeof(float);
  if (!base.files) return m;
  if (base.quantized) m.mapped += base.quantized->bytes();
  auto is_resized = [&](const std::string& tensor) { return base.resized && base.resized->contains(tensor); };
  if (base.resized)
    for (auto& [name, tensor] : *base.resized) m.copied += tensor.bytes.size();
  std::set<std::string> passed_over;  // trained, or seen before
  for (const Unit& u : model.parameters.units())
    for (const Parameter& p : u.parameters)
      passed_over.insert(p.name.starts_with("base_model.model.") ? p.name.substr(17) : p.name);
  const std::string embedding = embedding_and_head(model.spec)[0].tensor;
  for (const WeightName& w : weight_names(model.spec)) {
    if (passed_over.contains(w.tensor) || is_resized(w.tensor)) continue;
    // The head of a tied model that an adapter parted is the embedding's file.
    const bool shared = w.role == WeightRole::head && base.spec.tied;
    if (shared && (is_resized(embedding) || !model.embedding.table)) continue;  // counted as the embedding
    const TensorView* t = base.files->find(shared ? embedding : w.tensor);
    if (!t || !passed_over.insert(w.tensor).second || (base.quantized && base.quantized->find(w.tensor))) continue;
    if (is_mxfp4(*t)) m.mapped += t->bytes.size() + t->bytes.size() / 16;
    else if (!used_as_it_lies(*t, storage))
      m.copied += static_cast<std::size_t>(dtype_bytes(storage_of(*t, storage), t->size()));
    else if (!w.vector && !w.transposed) m.mapped += t->bytes.size();
  }
  return m;
}

}  // namespace dml
