// The model for inference: the base alone, with one adapter, or with a sum of several.
#include <algorithm>
#include <map>
#include <set>

#include "assembly/adapter_argument.h"
#include "assembly/base_model.h"
#include "checkpoint/adapter_sum.h"
#include "core/error.h"
#include "core/log.h"
#include "core/parallel.h"
#include "core/size_text.h"
#include "kernels/dora.h"
#include "kernels/quant_nf4.h"
#include "model/low_rank_init.h"
#include "model/owned_matrix.h"
#include "model/weight_slots.h"

namespace dml {
namespace {

std::unique_ptr<CausalLm> adapted_model(const BaseModel& base, std::optional<DType> storage, const Adapter& adapter,
                                        const std::string& name) {
  Training training;
  training.adapter = adapter.config;
  auto model = build_on(base, storage, training, base.directory);
  load_adapter(*model, adapter, name);
  return model;
}

// The base, but for tensors of it that adapters trained. `adapters` outlive it.
TensorSource with_saved(TensorSource base, const std::vector<WeightedAdapter>& adapters) {
  std::map<std::string, StoredTensor> saved;
  for (const WeightedAdapter& a : adapters)
    for (const AdapterTensor& t : a.adapter.tensors)
      if (t.trained() && (t.kind == AdapterTensor::Kind::saved || t.kind == AdapterTensor::Kind::bias))
        saved[t.module] = {DType::f32, t.shape, a.adapter.values.at(t.key).data()};
  return [base = std::move(base), saved = std::move(saved)](const std::string& name) -> std::optional<StoredTensor> {
    auto found = saved.find(name);
    return found == saved.end() ? base(name) : found->second;
  };
}

// Whether all tensors are stored in bfloat16, so that it is exact to hold them in bfloat16 or float32.
bool is_bf16(const BaseModel& base) {
  auto resized = [](const auto& tensor) { return tensor.second.dtype == DType::bf16; };
  return base.files && std::ranges::all_of(base.files->tensors(), [](auto& t) { return t.dtype == DType::bf16; }) &&
         (!base.resized || std::ranges::all_of(*base.resized, resized));
}

using GivenAdapters = std::shared_ptr<const std::vector<WeightedAdapter>>;

// A model on the base with the tensors that adapters trained, and the embedding and head that they untie.
std::pair<GivenAdapters, std::unique_ptr<CausalLm>> model_of(const BaseModel& base, std::optional<DType> storage,
                                                             std::vector<WeightedAdapter> adapters,
                                                             const Training& training) {
  auto given = std::make_shared<const std::vector<WeightedAdapter>>(std::move(adapters));
  auto source = std::make_shared<std::pair<GivenAdapters, TensorSource>>(given, TensorSource());
  ModelSpec spec = base.spec;
  std::set<std::string> whole;
  for (const WeightedAdapter& a : *given) {
    spec.tied = spec.tied && !a.adapter.plan.unties_head;
    for (const WeightName& w : a.adapter.plan.saved) whole.insert(w.tensor);
  }
  source->second = with_saved(base.source(storage, whole), *given);
  auto model = build_model(spec, source->second, training, base.directory);
  model->backing = source;
  return {given, std::move(model)};
}

// W + Σ wᵢ (Wᵢ − W), where Wᵢ is what adapter i and the base as it prepares it compute together: for adapters whose
// part is no product BA. The matrices they sit on are copied; nothing else is.
std::unique_ptr<CausalLm> sum_of_weights(const BaseModel& base, std::optional<DType> storage,
                                         std::vector<WeightedAdapter> adapters) {
  for (const WeightedAdapter& a : adapters)
    if (!a.adapter.plan.rows.empty() || a.adapter.config.lora_bias)
      throw UserError("{}: an adapter with {} cannot be combined with one whose update is not B·A (DoRA, PiSSA, …)",
                      a.name, a.adapter.config.lora_bias ? "lora_bias" : "trainable_token_indices");
  auto [given, model] = model_of(base, storage, std::move(adapters), {});

  std::vector<std::unique_ptr<CausalLm>> parts;
  for (const WeightedAdapter& a : *given) parts.push_back(adapted_model(base, storage, a.adapter, a.name));
  std::size_t bytes = 0;
  for (const WeightName& w : weight_names(model->spec)) {
    if (w.bias || w.vector) continue;
    std::vector<std::pair<MergedRows, float>> terms;
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (auto* lora = adapter_at(*parts[i], w); lora && *lora)
        terms.emplace_back(MergedRows(*frozen_at(*parts[i], w), &**lora, w.role == WeightRole::embed),
                           static_cast<float>((*given)[i].weight));
    if (terms.empty()) continue;
    const OwnedMatrix m = copy_to_owned(*model, w, false);
    bytes += m.bytes();
    set_rows(m, [&](std::int64_t first, std::int64_t count, float* out) {
      const std::int64_t n = count * w.cols;
      std::vector<float> plain(static_cast<std::size_t>(n)), adapted(plain.size());
      kernels::unpack(m.original, first, count, 0, w.cols, plain.data());
      std::ranges::copy(plain, out);
      for (auto& [rows, weight] : terms) {
        rows.read(first, count, adapted.data());
        for (std::int64_t k = 0; k < n; ++k) {
          const auto i = static_cast<std::size_t>(k);
          out[k] += weight * (adapted[i] - plain[i]);
        }
      }
    });
  }
  log_info("Adapters merged into {} of copied weights", size_text(bytes));
  return model;
}

std::unique_ptr<CausalLm> model_with(const BaseModel& base, std::optional<DType> storage,
                                     const std::vector<std::string>& adapters) {
  if (adapters.empty()) return build_on(base, storage, {}, base.directory);
  std::vector<WeightedAdapter> read;
  for (const std::string& text : adapters) {
    const AdapterArgument a(text);
    const double weight = a.weight();
    read.push_back({a.directory, read_adapter(a.directory, base.spec, base.directory), weight});
  }
  if (read.size() == 1 && read[0].weight == 1) return adapted_model(base, storage, read[0].adapter, read[0].name);
  refuse_conflicts(read, base.spec);
  if (!are_products(read)) return sum_of_weights(base, storage, std::move(read));
  const Adapter sum = sum_adapters(read, base.spec);
  Training training;
  training.adapter = sum.config;
  auto model = model_of(base, storage, std::move(read), training).second;
  load_adapter(*model, sum, fmt::format("{}", fmt::join(adapters, ", ")));
  return model;
}

// Computes DoRA's norms, which need a pass over the matrix, once for all tokens.
void keep_norms(CausalLm& model) {
  for (const WeightName& place : weight_names(model.spec)) {
    Linear* linear = place.bias || place.vector ? nullptr : linear_at(model, place);
    if (!linear || !linear->lora || !linear->lora->magnitude) continue;
    LoraAdapter& lora = *linear->lora;
    std::vector<float> norms(static_cast<std::size_t>(linear->out()));
    kernels::dora_norms(linear->value(), lora.a.value(), lora.b.value(), lora.scale, norms.data());
    model.owned.push_back(std::move(norms));
    lora.norms = model.owned.back().data();
  }
}

}  // namespace

void expand_scales(CausalLm& model) {
  constexpr std::int64_t kScales = 1 << 14;  // of one task
  for (const WeightName& place : weight_names(model.spec)) {
    kernels::Weight* w = frozen_at(model, place);
    if (!w || !w->scale_blocks) continue;
    std::vector<float> scales(static_cast<std::size_t>((w->rows * w->cols - 1) / kernels::kNf4Block + 1));
    parallel_ranges(std::ssize(scales), kScales, [&](std::int64_t first, std::int64_t last) {
      kernels::expand_scales(*w, first, last - first, scales.data() + first);
    });
    model.owned.push_back(std::move(scales));
    *w = {.dtype = w->dtype,
          .rows = w->rows,
          .cols = w->cols,
          .data = w->data,
          .scales = model.owned.back().data(),
          .bf16_values = w->bf16_values};
  }
}

std::unique_ptr<CausalLm> make_inference_model(const BaseModel& base, std::optional<DType> storage,
                                               const std::vector<std::string>& adapters) {
  auto model = model_with(base, storage, adapters);
  expand_scales(*model);
  keep_norms(*model);
  return model;
}

bool starts_as_base(const AdapterSection& adapter) {
  if (adapter.adapter == AdapterKind::none) return true;
  return !adapter.lora_model_dir && adapter.peft_init_lora_weights != LoraInit::random &&
         !starts_from_base(adapter_config(adapter, "").init);
}

std::unique_ptr<CausalLm> make_start_model(const BaseModel& base, const ModelSection& model,
                                           const AdapterSection& adapter, std::int64_t seed,
                                           const TrainedValues& values) {
  // frozen_storage does not apply to trained tensors, which only a trainable model knows.
  const bool as_stored = is_bf16(base) || (!values.bf16 && !model.frozen_storage);
  if (starts_as_base(adapter) && as_stored) return make_inference_model(base, model.frozen_storage);
  if (adapter.starts_from_adapter()) return make_inference_model(base, model.frozen_storage, {*adapter.lora_model_dir});
  // Initial values are functions of base and seed.
  return make_trainable_model(base, model, adapter, seed, values).model;
}

std::unique_ptr<CausalLm> make_inference_model(const BaseModel& base, std::optional<DType> storage,
                                               const std::vector<std::string>& adapters, CausalLm& host,
                                               std::optional<std::int32_t>& number) {
  auto model = model_with(base, storage, adapters);
  keep_norms(*model);
  number = host.attach_adapter(*model);
  if (!number) expand_scales(*model);
  return model;
}

}  // namespace dml
