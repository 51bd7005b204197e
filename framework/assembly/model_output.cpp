#include "assembly/model_output.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "checkpoint/bitsandbytes.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors_dtype.h"
#include "core/error.h"
#include "core/log.h"
#include "dist/shards.h"
#include "model/mxfp4_names.h"
#include "model/weight_slots.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

using TensorRows = std::map<std::string, std::vector<WeightName>>;

TensorRows rows_by_tensor(const ModelSpec& spec) {
  TensorRows rows;
  for (WeightName& w : weight_names(spec)) rows[w.tensor].push_back(w);
  return rows;
}

// Whether a tensor of the base is unknown to the model.
bool is_foreign(const TensorView& t, const TensorRows& rows, const ModelSpec& spec) {
  if (spec.moe.experts > 0 && t.dtype == DType::u8 && (t.name.ends_with(kMxfp4Codes) || t.name.ends_with(kMxfp4Scales)))
    return false;  // mxfp4: these weights are written as numbers
  return !rows.contains(std::string(t.name)) && !t.name.ends_with("rotary_emb.inv_freq") &&
         !is_bitsandbytes_part(t.name) &&
         !((spec.tied || spec.head != HeadKind::causal_lm) && t.name.starts_with(std::string(spec.naming->head) + "."));
}

std::vector<TensorInfo> tensors_of(const TensorRows& rows, const BaseModel& base, const ModelSpec& spec, DType dtype) {
  std::vector<TensorInfo> infos;
  for (auto& [name, parts] : rows) infos.push_back({name, dtype, parts[0].tensor_shape()});
  if (base.files)
    for (const TensorView& t : base.files->tensors())
      if (is_foreign(t, rows, spec)) infos.push_back({std::string(t.name), t.dtype, {t.shape.begin(), t.shape.end()}});
  return infos;
}

void write_configs(const std::string& directory, const BaseModel& base, const ModelSpec& spec, DType dtype,
                   bool untie) {
  const std::string type(transformers_name(dtype));
  Json config = base.files ? rewrite_config(base.config, {{"dtype", type}}) : config_json(spec, type);
  config.update(head_settings(spec));
  if (base.files && spec.vocab != base.spec.vocab) config = rewrite_config(config, {{"vocab_size", spec.vocab}});
  if (untie) config["tie_word_embeddings"] = false;
  write_file(directory + "/config.json", pretty_json(config));
}

}  // namespace

void write_adapter_directory(const std::string& directory, const AdapterConfig& config, const CausalLm& model,
                             std::span<const std::span<float>> copies, DType dtype) {
  std::map<std::string, std::span<const float>> values;
  const auto& units = model.parameters.units();
  for (std::size_t u = 0; u < units.size(); ++u)
    for (const Parameter& p : units[u].parameters)
      values[p.name] = {(copies.empty() ? units[u].value.floats() : copies[u].data()) + p.offset,
                        static_cast<std::size_t>(p.size())};
  const AdapterPlan plan = plan_adapter(config, model.spec, directory);
  auto tensors = adapter_tensors(config, model.spec, plan);
  const std::string head = embedding_and_head(model.spec)[1].tensor;
  // The file of the base has no head of a new reward model, so there is no value that PEFT would have replaced.
  if (model.spec.head != HeadKind::causal_lm && !model.head.frozen.data)
    std::erase_if(tensors,
                  [&](const AdapterTensor& t) { return t.kind == AdapterTensor::Kind::base && t.module == head; });
  std::vector<float> unpacked;  // of a quantized one
  auto base = [&](const AdapterTensor& t) -> StoredValues {
    const kernels::Weight& w = t.module == head ? model.head.frozen : model.embedding.frozen;
    if (is_plain_float(w.dtype)) return {w.dtype, w.data};
    unpacked.resize(static_cast<std::size_t>(w.rows * w.cols));
    kernels::unpack(w, 0, w.rows, 0, w.cols, unpacked.data());
    return {DType::f32, unpacked.data()};
  };
  std::vector<float> converted;
  auto trained = [&](const AdapterTensor& t) -> std::span<const float> {
    const AdaptedExperts* experts = plan.experts_of(t.key);
    if (!experts) return values.at(t.parameter);
    converted = expert_columns(experts->parameter, experts->r, values.at(t.parameter));
    return converted;
  };
  write_adapter(directory, config, tensors, trained, base, dtype);
}

namespace {

// A bias of the adapter is merged into the layer's own.
void require_biases(CausalLm& model, const TensorRows& rows) {
  Problems problems;
  for (auto& [name, parts] : rows)
    for (const WeightName& w : parts)
      if (Linear* linear = w.bias || w.vector ? nullptr : linear_at(model, w);
          linear && linear->lora && linear->lora->bias && !linear->bias && !linear->frozen_bias)
        problems.add(fmt::format("'{}' has no bias, so the adapter's lora_bias cannot be merged into it", w.module()));
  problems.raise();
}

}  // namespace

ModelSpec merged_spec(CausalLm& model, const NewRows& more) {
  ModelSpec spec = model.spec;
  if (spec.tied && model.head.value().data != model.embedding.value().data) spec.tied = false;
  require_biases(model, rows_by_tensor(spec));
  spec.vocab = std::max(spec.vocab, more.rows);
  return spec;
}

std::vector<float> merged_values(CausalLm& model, std::span<const WeightName> rows, const NewRows& more) {
  std::vector<float> values = tensor_values(model, rows, true);
  append_rows(values, rows[0], model.spec, more);
  return values;
}

namespace {

void write_files(const std::string& directory, const BaseModel& base, CausalLm& model, DType dtype, bool merge,
                 const NewRows& more, const DistributionStrategy::Show& show) {
  ModelSpec spec = merge ? merged_spec(model, more) : model.spec;
  const bool untie = base.spec.tied && !spec.tied;
  if (spec.moe.layout == ExpertLayout::mxfp4) spec.moe.layout = ExpertLayout::transposed;
  ModelSpec held = spec;
  held.vocab = model.spec.vocab;
  const TensorRows rows = rows_by_tensor(held);
  if (untie)
    log_info(
        "The adapter gives embedding and head different values: they become two matrices (tie_word_embeddings: false)");
  ModelWriter writer(directory, tensors_of(rows_by_tensor(spec), base, spec, dtype));
  for (const TensorInfo& info : writer.tensors()) {
    auto known = rows.find(info.name);
    if (known == rows.end()) {
      auto bytes = base.files->find(info.name)->bytes;
      writer.append(bytes.data(), bytes.size());
    } else {
      if (show) show(unit_of(known->second[0], spec));
      writer.append_floats(merge ? merged_values(model, known->second, more)
                                 : tensor_values(model, known->second, false));
    }
  }
  writer.commit();
  write_configs(directory, base, spec, dtype, untie);
}

}  // namespace

void write_model_directory(const std::string& directory, const BaseModel& base, CausalLm& model, DType dtype,
                           const DistributionStrategy::Show& show) {
  write_files(directory, base, model, dtype, false, {}, show);
}

void write_merged_directory(const std::string& directory, const BaseModel& base, CausalLm& model, DType dtype,
                            const NewRows& more) {
  write_files(directory, base, model, dtype, true, more, {});
}

bool ShardedModelWriter::possible(const CausalLm& model) {
  if (!model.reordered.empty()) return false;
  TensorRows rows = rows_by_tensor(model.spec);
  std::erase_if(rows, [](auto& row) { return row.second[0].constant; });
  for (const Unit& unit : model.parameters.units())
    for (const Parameter& p : unit.parameters) {
      if (p.trained_first > 0 || p.trained_end() < p.size()) return false;
      rows.erase(p.name);
    }
  return rows.empty();
}

ShardedModelWriter::ShardedModelWriter(std::string directory, const BaseModel& base, CausalLm& model, DType dtype)
    : directory_(std::move(directory)),
      base_(base),
      model_(model),
      dtype_(dtype),
      parts_(directory_, tensors_of(rows_by_tensor(model.spec), base, model.spec, dtype)) {}

void ShardedModelWriter::write(std::span<const Shard> shards, Tensors tensors, const std::stop_token& stop) {
  for (const Shard& s : shards) {
    if (stop.stop_requested()) return;
    if (s.value16.empty()) parts_.write_floats(s.parameter->name, s.first, s.value);
    else parts_.write_bf16(s.parameter->name, s.first, s.value16);
  }
  if (tensors == Tensors::all) {
    const TensorRows rows = rows_by_tensor(model_.spec);
    for (auto& [name, parts] : rows)
      if (parts[0].constant) parts_.write_floats(name, 0, tensor_values(model_, parts, false));
    if (base_.files)
      for (const TensorView& t : base_.files->tensors())
        if (is_foreign(t, rows, model_.spec)) parts_.write(t.name, t.bytes);
    write_configs(directory_, base_, model_.spec, dtype_, false);
  }
  parts_.commit();
}

void load_model_values(CausalLm& model, const std::string& directory) {
  ModelFiles files(directory);
  std::vector<float> converted;
  load_parameters(
      model.parameters,
      [&](const std::string& name) -> std::optional<StoredTensor> {
        const TensorView* t = files.find(name);
        if (!t) return std::nullopt;
        StoredTensor out{t->dtype, {t->shape.begin(), t->shape.end()}, t->bytes.data()};
        auto order = model.reordered.find(name);
        if (order == model.reordered.end()) return out;
        const std::vector<float> values = t->floats(directory);
        converted.resize(values.size());
        for (std::size_t i = 0; i < values.size(); ++i)
          converted[i] = values[static_cast<std::size_t>(order->second.place(static_cast<std::int64_t>(i)))];
        const std::int64_t rows = order->second.experts * order->second.rows, cols = order->second.cols;
        return StoredTensor{DType::f32, cols > 1 ? std::vector{rows, cols} : out.shape, converted.data()};
      },
      directory);
}

void load_shard_values(const CausalLm& model, const std::string& directory, std::span<Shard> shards) {
  constexpr std::int64_t kAtOnce = std::int64_t{1} << 22;
  ModelFiles files(directory);
  for (Shard& s : shards) {
    const TensorView* t = files.find(s.parameter->name);
    if (!t) throw UserError("{}: tensor '{}' is missing", directory, s.parameter->name);
    if (t->size() != s.parameter->size())
      throw UserError("{}: tensor '{}' has {} elements, this model needs {}", directory, t->name, t->size(),
                      s.parameter->size());
    auto order = model.reordered.find(s.parameter->name);
    if (order == model.reordered.end()) {
      std::vector<float> piece(static_cast<std::size_t>(std::min<std::int64_t>(s.size, kAtOnce)));
      for (std::int64_t i = 0; i < s.size; i += kAtOnce) {
        const std::int64_t n = std::min(kAtOnce, s.size - i);
        read_floats(t->dtype, t->bytes.data() + dtype_bytes(t->dtype, s.first + i), n, piece.data());
        set_values(s, i, std::span(piece).first(static_cast<std::size_t>(n)));
      }
      continue;
    }
    const std::vector<float> stored = t->floats(directory);
    for (std::int64_t i = 0; i < s.size; ++i)
      set_values(s, i, std::span(&stored[static_cast<std::size_t>(order->second.place(s.first + i))], 1));
  }
}

}  // namespace dml
