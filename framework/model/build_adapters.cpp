// Adds the parameters of an adapter to the layers of a model.
#include <algorithm>
#include <map>

#include "kernels/quant_nf4.h"
#include "kernels/stored_format.h"
#include "model/adapter_init.h"
#include "model/build_state.h"
#include "model/low_rank_init.h"
#include "model/weight_slots.h"

namespace dml {
namespace {

using kernels::Weight;

class AdapterPlaces {
 public:
  explicit AdapterPlaces(BuildState& state) : b_(state) {}

  void place_all() {
    if (b_.training.adapter) place_modules();
    for (const AdaptedExperts& experts : b_.plan.experts) place_expert_adapter(experts);
    for (const TrainedRows& rows : b_.plan.rows) place_rows(rows);
  }

 private:
  void place_modules() {
    std::map<std::string, const AdaptedModule*> wanted;
    for (const AdaptedModule& m : b_.plan.modules) wanted[m.module.name] = &m;
    std::map<std::string, LoraAdapter> made;
    for (const WeightName& w : weight_names(b_.spec)) {
      auto found = w.bias || w.vector ? wanted.end() : wanted.find(w.module());
      if (found == wanted.end()) continue;
      std::optional<LoraAdapter>* slot = adapter_at(b_.model, w);
      Linear* linear = linear_at(b_.model, w);
      if (!slot || (!linear && b_.training.adapter->use_dora) || is_new_head(w, b_.spec)) {
        b_.problems.add(fmt::format("{}: {} on '{}' is not supported: name it in lora_modules_to_save instead",
                                    b_.source_name, linear || !slot || is_new_head(w, b_.spec) ? "LoRA" : "DoRA",
                                    w.module()));
        continue;
      }
      auto [it, fresh] = made.try_emplace(w.module());
      if (fresh) it->second = make_adapter(*found->second, w);
      // The weights of a fused tensor share A; each has its rows of B.
      LoraAdapter part = it->second;
      if (w.fused()) {
        part.b.offset += w.first_row * part.b.cols;
        part.b.rows = w.rows;
      }
      if (part.bias) {
        part.bias.offset += w.first_row;
        part.bias.cols = w.rows;
      }
      if (part.magnitude) {
        part.magnitude.offset += w.first_row;
        part.magnitude.cols = w.rows;
      }
      *slot = part;
      if (auto rest = b_.residuals.find(w.tensor); rest != b_.residuals.end())
        *frozen_at(b_.model, w) = rest->second.slice(w.first_row, w.rows);
      if (part.magnitude) b_.fills.push_back([linear] { init_magnitude(*linear); });
    }
  }

  LoraAdapter make_adapter(const AdaptedModule& m, const WeightName& w) {
    const std::string name = "base_model.model." + m.module.name;
    const std::size_t unit = unit_of(w, b_.spec);
    const ParameterRole role = b_.role_of(w);
    LoraAdapter lora;
    if (m.module.embedding) {
      lora.a = b_.model.parameters.add(unit, name + ".lora_embedding_A", {m.r, m.module.rows}, true, role);
      lora.b = b_.model.parameters.add(unit, name + ".lora_embedding_B", {m.module.cols, m.r}, true, role);
    } else {
      lora.a = b_.model.parameters.add(unit, name + ".lora_A.weight", {m.r, m.module.cols}, true, role);
      lora.b = b_.model.parameters.add(unit, name + ".lora_B.weight", {m.module.rows, m.r}, true, role);
      if (b_.training.adapter->lora_bias)
        lora.bias = b_.model.parameters.add(unit, name + ".lora_B.bias", {m.module.rows}, false, role);
      if (b_.training.adapter->use_dora) {
        lora.magnitude = b_.model.parameters.add(unit, name + ".lora_magnitude_vector", {m.module.rows}, false, role);
        lora.magnitude.unit->parameters.back().decay = true;  // as in transformers: neither a norm nor a bias
      }
      lora.dropout = static_cast<float>(b_.training.adapter->dropout);
    }
    lora.scale = static_cast<float>(m.scale);
    lora.stream = b_.next_stream++;
    if (m.module.embedding)
      b_.fills.push_back(
          [&b = b_, lora, name] { init_embedding_adapter(lora, b.training.adapter->init, b.training.seed, name); });
    else if (starts_from_base(b_.training.adapter->init)) start_from_base(lora, m, w);
    else
      b_.fills.push_back(
          [&b = b_, lora, name] { init_adapter(lora, b.training.adapter->init, b.training.seed, name); });
    return lora;
  }

  // One parameter for all experts; each uses its rows.
  void place_expert_adapter(const AdaptedExperts& adapted) {
    const ExpertParameter& p = adapted.parameter;
    const std::string name = "base_model.model." + adapted.stem;
    const auto unit = static_cast<std::size_t>(p.layer) + 1;
    LoraAdapter all;
    all.a = b_.model.parameters.add(unit, name + ".lora_A.weight", {p.experts * adapted.r, p.cols}, true);
    all.b = b_.model.parameters.add(unit, name + ".lora_B.weight", {p.experts * p.rows, adapted.r}, true);
    all.scale = static_cast<float>(adapted.scale);
    b_.fills.push_back([&b = b_, all, name] { init_adapter(all, b.training.adapter->init, b.training.seed, name); });
    auto rows = [](ParameterRef ref, std::int64_t first, std::int64_t count) {
      ref.offset += first * ref.cols;
      ref.rows = count;
      return ref;
    };
    Moe& moe = b_.model.layers[static_cast<std::size_t>(p.layer)].mlp.moe;
    for (std::int64_t e = 0; e < p.experts; ++e) {
      Mlp& expert = moe.experts[static_cast<std::size_t>(e)];
      LoraAdapter own = all;
      own.a = rows(all.a, e * adapted.r, adapted.r);
      const std::int64_t parts = p.down ? 1 : 2, count = p.rows / parts;
      for (std::int64_t part = 0; part < parts; ++part) {
        Linear& linear = p.down ? expert.down : part == 0 ? expert.gate : expert.up;
        own.b = rows(all.b, e * p.rows + part * count, count);
        if (linear.lora)
          b_.problems.add(fmt::format("{}: '{}' is in lora_target_parameters, and its matrices in lora_target_modules",
                                      b_.source_name, p.name));
        linear.lora = own;
      }
    }
  }

  // Trained rows are initialized with the rows that they replace.
  void place_rows(const TrainedRows& trained) {
    const WeightName& w = trained.weight;
    const auto count = static_cast<std::int64_t>(trained.tokens.size());
    const bool embedding = w.role == WeightRole::embed;
    TrainedTokens& own = embedding ? b_.model.embedding.trained_tokens : b_.model.head.trained_tokens;
    own.rows = b_.model.parameters.add(unit_of(w, b_.spec), rows_key(w), {count, w.cols}, true, b_.role_of(w));
    for (std::int64_t k = 0; k < count; ++k) own.numbers.push_back(static_cast<std::int32_t>(k));
    std::ranges::sort(own.numbers, {}, [&](std::int32_t k) { return trained.tokens[static_cast<std::size_t>(k)]; });
    for (std::int32_t k : own.numbers)
      own.tokens.push_back(static_cast<std::int32_t>(trained.tokens[static_cast<std::size_t>(k)]));
    if (embedding && b_.spec.tied) b_.model.head.trained_tokens = own;
    b_.fills.push_back([rows = own.rows, tokens = trained.tokens, matrix = *frozen_at(b_.model, w)] {
      for (std::size_t k = 0; k < tokens.size(); ++k)
        kernels::unpack(matrix, tokens[k], 1, 0, matrix.cols, rows.value().row(static_cast<std::int64_t>(k)));
    });
  }

  // Computes the adapter's initial values from the base weight, which becomes the residual, in the model's memory and
  // in its own dtype (LoftQ: NF4).
  void start_from_base(const LoraAdapter& lora, const AdaptedModule& m, const WeightName& w) {
    const std::string& init = b_.training.adapter->init;
    auto refuse = [&](const std::string& why) {
      b_.problems.add(fmt::format("{}: init_lora_weights '{}' on '{}': {}", b_.source_name, init, m.module.name, why));
    };
    auto stored = b_.find(w);
    if (b_.source && !stored) return;
    const bool quantized = stored && kernels::is_quantized(stored->dtype);
    if (m.r > std::min(m.module.rows, m.module.cols))
      return refuse(fmt::format("rank {} is above the weight's smaller side", m.r));
    if (quantized && init == "loftq") return refuse("the base is quantized already");
    if (init == "olora" && w.transposed) return refuse("weights stored as (in, out) are not supported");
    if (init == "loftq" && w.fused() && w.rows * w.cols % kernels::kNf4Block != 0)
      return refuse("its parts do not begin at a block of NF4");
    std::vector<float> values(static_cast<std::size_t>(m.module.rows * m.module.cols));
    b_.tensor_values(w, stored, values.data());
    auto start = std::make_shared<LowRankFactors>(extract_low_rank(
        init, {values.data(), m.module.rows, m.module.cols}, m.r, m.scale, b_.training.adapter->loftq_iterations));
    const DType dtype = init == "loftq" ? DType::nf4 : stored ? stored->dtype : DType::f32;
    Weight& rest = b_.residuals[w.tensor];
    rest = keep_values(dtype, std::move(values), m.module.rows, m.module.cols, quantized, b_.model.owned);
    const bool half = stored && (stored->bf16_values || stored->dtype == DType::bf16 || stored->dtype == DType::f16);
    rest.bf16_values = dtype == DType::nf4 && half;
    b_.fills.push_back([lora, start] {
      std::ranges::copy(start->a, lora.a.value().data);
      std::ranges::copy(start->b, lora.b.value().data);
    });
  }

  BuildState& b_;
};

}  // namespace

void place_adapters(BuildState& state) { AdapterPlaces(state).place_all(); }

}  // namespace dml
