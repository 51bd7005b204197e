#include "checkpoint/mlx_adapter.h"

#include <algorithm>
#include <set>

#include "checkpoint/finite.h"
#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "core/files.h"
#include "core/shown.h"

namespace dml {
namespace {

using Kind = AdapterTensor::Kind;

const char* suffix(Kind kind) { return kind == Kind::a ? ".lora_a" : kind == Kind::b ? ".lora_b" : ".m"; }

/// The shape of a PEFT tensor in mlx-lm.
std::vector<std::int64_t> mlx_shape(const AdapterTensor& t) {
  auto shape = t.shape;
  std::ranges::reverse(shape);
  return shape;
}

/// Names of the adapted modules: those that have a lora_a.
std::vector<std::string> modules_in(const SafetensorsFile& file) {
  std::vector<std::string> out;
  for (auto& t : file.tensors())
    if (t.name.ends_with(".lora_a")) out.emplace_back(t.name.substr(0, t.name.size() - 7));
  return out;
}

}  // namespace

AdapterConfig read_mlx_config(const Json& json, const std::string& source, const SafetensorsFile* weights) {
  if (!json.is_object()) throw UserError("{}: expected an object of settings", source);
  std::string type = json_string(json, "fine_tune_type", "lora", source);
  if (type != "lora" && type != "dora")
    throw UserError("{}: fine_tune_type '{}' is not an adapter; choose from lora, dora", source, shown(type, 60));
  auto it = json.find("lora_parameters");
  if (it == json.end() || !it->is_object()) throw UserError("{}: no 'lora_parameters' object", source);
  std::string inside = source + ": lora_parameters";
  AdapterConfig c;
  c.r = json_integer(*it, "rank", 8, inside);
  if (c.r < 1 || c.r > (1 << 16)) throw UserError("{}: 'rank' must be 1 to 65536, is {}", inside, c.r);
  c.alpha = json_number(*it, "scale", 20, inside) * static_cast<double>(c.r);
  c.dropout = json_number(*it, "dropout", 0, inside);
  c.use_dora = type == "dora";
  c.base_model = json_string(json, "model", "", source);
  // The modules listed in mlx-lm's config, if the weights are not available.
  auto keys = it->find("keys");
  if (weights) c.target_modules = modules_in(*weights);
  else if (keys != it->end() && keys->is_array())
    for (const Json& key : *keys)
      if (key.is_string()) c.target_modules.push_back(key);
  return c;
}

Adapter read_mlx_adapter(const std::string& directory, const Json& json, const ModelSpec& spec) {
  SafetensorsFile file(path_in(directory, "adapters.safetensors"));
  Adapter out;
  out.config = read_mlx_config(json, path_in(directory, "adapter_config.json"), &file);
  out.plan = plan_adapter(out.config, spec, file.path());
  out.tensors = adapter_tensors(out.config, spec, out.plan);

  Problems problems;
  std::set<std::string, std::less<>> expected;
  for (auto& t : out.tensors) {
    std::string name = t.module + suffix(t.kind);
    expected.insert(name);
    auto* view = file.find(name);
    if (!view) problems.add(fmt::format("{}: tensor '{}' is missing", file.path(), name));
    else if (!std::ranges::equal(view->shape, mlx_shape(t)))
      problems.add(fmt::format("{}: tensor '{}' is {}, expected {}", file.path(), name, shape_text(view->shape),
                               shape_text(mlx_shape(t))));
  }
  for (auto& t : file.tensors())
    if (!expected.contains(t.name))
      problems.add(fmt::format("{}: tensor '{}' belongs to no module of this model", file.path(), t.name));
  problems.raise();
  for (auto& t : out.tensors) {
    const TensorView& stored = file.at(t.module + suffix(t.kind));
    if (const std::int64_t bad = first_not_finite(stored.dtype, stored.bytes); bad >= 0)
      refuse_not_finite(stored, directory, bad, "adapter");
    auto values = stored.floats(file.path());
    out.values[t.key] = t.shape.size() == 2 ? transposed(values, t.shape[1], t.shape[0]) : std::move(values);
  }
  return out;
}

void write_mlx_adapter(const std::string& directory, const AdapterConfig& config, const ModelSpec& spec,
                       const AdapterValues& values) {
  AdapterPlan plan = plan_adapter(config, spec, directory);
  if (!plan.saved.empty())
    throw UserError("mlx-lm adapters hold no modules_to_save; this one has '{}'", plan.saved[0].module());
  for (auto [key, there] : {std::pair{"lora_bias", config.lora_bias}, std::pair{"bias", !plan.biases.empty()},
                            std::pair{"trainable_token_indices", !plan.rows.empty()},
                            std::pair{"target_parameters", !plan.experts.empty()}})
    if (there) throw UserError("mlx-lm adapters hold no {}; this one has it (dml merge makes a model of it)", key);
  auto& first = plan.modules.at(0);
  std::set<std::string> keys;
  std::int64_t lowest = spec.layers;
  auto rows = weight_names(spec);
  for (auto& m : plan.modules) {
    if (m.r != first.r || m.scale != first.scale)
      throw UserError("an mlx-lm adapter has one rank and scale; '{}' has {} and {}, '{}' has {} and {}",
                      first.module.name, first.r, first.scale, m.module.name, m.r, m.scale);
    auto row = std::ranges::find_if(rows, [&](auto& w) { return w.module() == m.module.name; });
    if (row->layer < 0) throw UserError("an mlx-lm adapter can only adapt layers, not '{}'", m.module.name);
    lowest = std::min(lowest, row->layer);
    std::string number = "." + std::to_string(row->layer) + ".";
    keys.insert(m.module.name.substr(m.module.name.find(number) + number.size()));
  }

  auto tensors = adapter_tensors(config, spec, plan);
  std::erase_if(tensors, [](const AdapterTensor& t) { return !t.trained(); });
  std::map<std::string, const AdapterTensor*> by_name;
  std::vector<TensorInfo> infos;
  for (auto& t : tensors) {
    by_name[t.module + suffix(t.kind)] = &t;
    infos.push_back({t.module + suffix(t.kind), DType::f32, mlx_shape(t)});
  }
  std::vector<float> turned;
  write_safetensors(path_in(directory, "adapters.safetensors"), std::move(infos),
                    [&](const TensorInfo& info) {
                      auto& t = *by_name.at(info.name);
                      auto v = values(t);
                      if (t.shape.size() == 2) {
                        turned = transposed(v, t.shape[0], t.shape[1]);
                        v = turned;
                      }
                      return v;
                    },
                    {{"format", "mlx"}});

  WideJson j;
  j["fine_tune_type"] = config.use_dora ? "dora" : "lora";
  j["num_layers"] = spec.layers - lowest;
  j["lora_parameters"] = {{"rank", first.r}, {"scale", first.scale}, {"dropout", config.dropout}, {"keys", keys}};
  if (!config.base_model.empty()) j["model"] = config.base_model;
  write_file(path_in(directory, "adapter_config.json"), j.dump(4, ' ', true, WideJson::error_handler_t::replace));
}

}  // namespace dml
