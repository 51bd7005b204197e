#include "exchange/gguf_adapter.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "checkpoint/adapter_io.h"
#include "checkpoint/safetensors_dtype.h"
#include "core/error.h"
#include "exchange/gguf_families.h"
#include "kernels/stored_format.h"
#include "model/low_rank_init.h"

namespace dml {
namespace {

using Kind = AdapterTensor::Kind;

// llama.cpp applies no adapter to the matrices that produce latent queries, keys and values.
bool is_passed_over(const GgufTensor& t, const ModelSpec& spec) {
  const WeightRole role = t.sources[0].role;
  return spec.latent &&
         (role == WeightRole::q || role == WeightRole::q_low || role == WeightRole::kv_low || role == WeightRole::kv);
}

using TensorOf = std::map<std::string, GgufTensor>;  // by module

void refuse(const Adapter& a, const ModelSpec& spec, const TensorOf& tensors, const std::string& source) {
  Problems problems;
  auto add = [&](bool there, const std::string& what) {
    if (there)
      problems.add(
          fmt::format("{}: a GGUF adapter holds no {}; dml merge --format gguf makes a model of it", source, what));
  };
  const AdapterPlan& plan = a.plan;
  add(a.config.use_dora, "magnitudes of DoRA");
  add(!plan.saved.empty(), plan.saved.empty() ? "" : fmt::format("saved modules like '{}'", plan.saved[0].module()));
  add(a.config.lora_bias || !plan.biases.empty(), "biases");
  add(!plan.rows.empty(), "rows of an embedding");
  add(starts_from_base(a.config.init),
      fmt::format("change of the base, which init_lora_weights '{}' makes", a.config.init));
  add(!plan.experts.empty(),
      plan.experts.empty() ? "" : fmt::format("adapter on experts like '{}'", plan.experts[0].stem));
  for (const AdaptedModule& m : plan.modules)
    add(m.module.routed, fmt::format("adapter on '{}', an expert or a router", m.module.name));
  for (const AdaptedModule& m : plan.modules)
    add((m.module.embedding || m.module.head) && spec.tied,
        fmt::format("adapter on '{}' of a model whose head is its embedding", m.module.name));
  const auto passed_over = std::ranges::find_if(plan.modules, [&](const AdaptedModule& m) {
    const auto tensor = tensors.find(m.module.name);
    return tensor != tensors.end() && is_passed_over(tensor->second, spec);
  });
  if (passed_over != plan.modules.end())
    add(true,
        fmt::format("adapter on projections like '{}', which llama.cpp would pass over", passed_over->module.name));
  problems.raise();
}

struct Part {
  GgufTensorInfo info;
  std::vector<float> values;
};

// Permutes the rows of q and k to llama.cpp's order.
std::vector<float> ordered(std::span<const float> b, std::int64_t rows, std::int64_t r, const RowOrder& order) {
  std::vector<float> out(b.size());
  for (std::int64_t i = 0; i < rows; ++i) std::copy_n(b.begin() + order.source(i) * r, r, out.begin() + i * r);
  return out;
}

}  // namespace

void write_gguf_adapter(const std::string& path, const Adapter& adapter, const ModelSpec& spec,
                        const GgufFileType& type, const std::string& source) {
  if (kernels::is_quantized(type.base))
    throw UserError("--dtype: an adapter is written as f32, f16 or bf16, not as {}", type.name);
  const GgufFamily& family = gguf_family(spec.model_type, source);
  TensorOf by_module;
  for (GgufTensor& t : gguf_tensors(spec, family))
    if (t.matrix()) by_module.try_emplace(t.sources[0].module(), t);
  refuse(adapter, spec, by_module, source);
  auto values = [&](Kind kind, const std::string& module) -> std::span<const float> {
    for (const AdapterTensor& t : adapter.tensors)
      if (t.kind == kind && t.module == module) return adapter.values.at(t.key);
    throw UserError("{}: no values for '{}'", source, module);
  };

  const AdaptedModule& first = adapter.plan.modules.at(0);
  const double alpha = first.scale * static_cast<double>(first.r);
  const GgmlType& stored = ggml_type(type.base);
  std::vector<Part> parts;
  for (const AdaptedModule& m : adapter.plan.modules) {
    const GgufTensor& t = by_module.at(m.module.name);
    const std::int64_t rows = m.module.rows, cols = m.module.cols;
    const auto a = values(Kind::a, m.module.name), b = values(Kind::b, m.module.name);
    Part down{{t.name + ".lora_a", {m.r, cols}, &stored}, {a.begin(), a.end()}};
    Part up{{t.name + ".lora_b", {rows, m.r}, &stored}, {b.begin(), b.end()}};
    if (m.module.embedding) {  // an embedding's rows are tokens
      down = {{t.name + ".lora_a", {rows, m.r}, &stored}, transposed(a, m.r, rows)};
      up.info.shape = {cols, m.r};
    } else if (t.order) {
      up.values = ordered(b, rows, m.r, t.order);
    }
    // The file has a single alpha: a module's scale relative to it is multiplied into B.
    if (const double factor = m.scale * static_cast<double>(m.r) / alpha; std::abs(factor - 1) > 1e-12)
      for (float& x : up.values) x = static_cast<float>(x * factor);
    parts.push_back(std::move(down));
    parts.push_back(std::move(up));
  }

  GgufMetadata m;
  m.set("general.architecture", GgufValue::text(std::string(family.architecture)));
  m.set("general.type", GgufValue::text("adapter"));
  m.set("adapter.type", GgufValue::text("lora"));
  m.set("adapter.lora.alpha", GgufValue::f32(static_cast<float>(alpha)));
  m.set("general.file_type", GgufValue::u32(type.id));
  std::vector<GgufTensorInfo> infos;
  for (const Part& p : parts) infos.push_back(p.info);
  GgufWriter out(path, m, std::move(infos));
  for (const Part& p : parts) {
    for (float x : p.values)
      if (!std::isfinite(x) || (type.base == DType::f16 && std::abs(x) >= 65520))
        throw UserError("{}: '{}' has values like {}, which {} cannot hold", source, p.info.name, x, type.name);
    std::vector<std::byte> bytes(static_cast<std::size_t>(p.info.bytes()));
    write_floats(type.base, p.values.data(), std::ssize(p.values), bytes.data());
    out.append(bytes.data(), bytes.size());
  }
  out.commit();
}

}  // namespace dml
