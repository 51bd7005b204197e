#include "model/weight_slots.h"

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/dora.h"
#include "kernels/gemm.h"

namespace dml {
namespace {

Mat rows_of(std::vector<float>& values, const WeightName& w) {
  return {values.data() + w.first_row * w.cols, w.rows, w.cols};
}

void matrix_values(const kernels::Weight& w, const std::optional<LoraAdapter>& adapter, bool embedding, Mat out) {
  const MergedRows rows(w, adapter ? &*adapter : nullptr, embedding);
  parallel_ranges(w.rows, 64,
                  [&](std::int64_t first, std::int64_t last) { rows.read(first, last - first, out.row(first)); });
}

void vector_values(const ParameterRef& trained, const float* frozen, const WeightName& w, std::vector<float>& values) {
  const float* from = trained ? trained.value().data : frozen;
  DML_CHECK(from, "{} has no values", w.tensor);
  std::copy_n(from, w.rows, values.data() + w.first_row);
}

}  // namespace

MergedRows::MergedRows(const kernels::Weight& weight, const LoraAdapter* lora, bool embedding)
    : weight_(weight), lora_(lora), embedding_(embedding) {
  if (!lora || !lora->magnitude) return;
  norms_.resize(static_cast<std::size_t>(weight.rows));
  kernels::dora_norms(weight, lora->a.value(), lora->b.value(), lora->scale, norms_.data());
}

void MergedRows::read(std::int64_t first, std::int64_t count, float* out) const {
  const std::int64_t cols = weight_.cols;
  kernels::unpack(weight_, first, count, 0, cols, out);
  if (!lora_) return;
  ConstMat a = lora_->a.value(), b = lora_->b.value();
  if (embedding_)
    kernels::sgemm_tile(true, true, count, cols, a.rows, lora_->scale, a.data + first, a.cols, b.data, b.cols, 1, out,
                        cols);
  else
    kernels::sgemm_tile(false, false, count, cols, a.rows, lora_->scale, b.row(first), b.cols, a.data, a.cols, 1, out,
                        cols);
  if (!lora_->magnitude) return;
  const float* magnitude = lora_->magnitude.value().data;
  for (std::int64_t r = 0; r < count; ++r) {
    const auto row = static_cast<std::size_t>(first + r);
    for (std::int64_t c = 0; c < cols; ++c) out[r * cols + c] *= magnitude[row] / norms_[row];
  }
}

Linear* linear_at(CausalLm& model, const WeightName& w) {
  if (w.layer < 0) return nullptr;
  DecoderLayer& layer = model.layers[static_cast<std::size_t>(w.layer)];
  Moe& moe = layer.mlp.moe;
  Mlp& mlp = w.expert >= 0               ? moe.experts[static_cast<std::size_t>(w.expert)]
             : w.expert == kSharedExpert ? moe.shared
                                         : static_cast<Mlp&>(layer.mlp);
  switch (w.role) {
    case WeightRole::q:
      return model.spec.latent ? &layer.attention.latent.q_b : &layer.attention.q;
    case WeightRole::q_low:
      return &layer.attention.latent.q_a;
    case WeightRole::kv_low:
      return &layer.attention.latent.kv_a;
    case WeightRole::kv:
      return &layer.attention.latent.kv_b;
    case WeightRole::k:
      return &layer.attention.k;
    case WeightRole::v:
      return &layer.attention.v;
    case WeightRole::qkv:
      return &layer.attention.qkv;
    case WeightRole::o:
      return &layer.attention.o;
    case WeightRole::gate:
      return &mlp.gate;
    case WeightRole::up:
      return &mlp.up;
    case WeightRole::down:
      return &mlp.down;
    case WeightRole::router:
      return &moe.router.gate;
    case WeightRole::shared_gate:
      return &moe.shared_gate;
    default:
      return nullptr;
  }
}

Norm* norm_at(CausalLm& model, const WeightName& w) {
  if (w.role == WeightRole::final_norm) return &model.head.norm;
  if (w.role == WeightRole::embed_norm) return &model.embedding.norm;
  if (w.layer < 0) return nullptr;
  DecoderLayer& layer = model.layers[static_cast<std::size_t>(w.layer)];
  switch (w.role) {
    case WeightRole::input_norm:
      return &layer.attention_norm;
    case WeightRole::post_attention_norm:
      return &layer.attention_post_norm;
    case WeightRole::pre_ffn_norm:
      return &layer.mlp_norm;
    case WeightRole::post_ffn_norm:
      return &layer.mlp_post_norm;
    case WeightRole::q_low_norm:
      return &layer.attention.latent.q_norm;
    case WeightRole::kv_low_norm:
      return &layer.attention.latent.kv_norm;
    case WeightRole::q_norm:
      return w.head < 0 ? &layer.attention.q_norm : &layer.attention.q_norms[static_cast<std::size_t>(w.head)];
    case WeightRole::k_norm:
      return w.head < 0 ? &layer.attention.k_norm : &layer.attention.k_norms[static_cast<std::size_t>(w.head)];
    default:
      return nullptr;
  }
}

VectorPlace vector_at(CausalLm& model, const WeightName& w) {
  if (w.role == WeightRole::head && w.bias) return {&model.head.bias, &model.head.frozen_bias};
  if (w.layer < 0) return {};
  XieluScalars& s = model.layers[static_cast<std::size_t>(w.layer)].mlp.xielu;
  switch (w.role) {
    case WeightRole::alpha_p:
      return {&s.alpha_p, &s.frozen_p};
    case WeightRole::alpha_n:
      return {&s.alpha_n, &s.frozen_n};
    case WeightRole::beta:
      return {nullptr, &s.beta};
    case WeightRole::eps:
      return {nullptr, &s.eps};
    default:
      return {};
  }
}

std::optional<LoraAdapter>* adapter_at(CausalLm& model, const WeightName& w) {
  if (Linear* linear = linear_at(model, w)) return &linear->lora;
  return w.role == WeightRole::embed ? &model.embedding.lora : w.role == WeightRole::head ? &model.head.lora : nullptr;
}

kernels::Weight* frozen_at(CausalLm& model, const WeightName& w) {
  if (Linear* linear = linear_at(model, w)) return &linear->frozen;
  return w.role == WeightRole::embed  ? &model.embedding.frozen
         : w.role == WeightRole::head ? &model.head.frozen
                                      : nullptr;
}

namespace {

void add_adapter_bias(const Linear& linear, const WeightName& w, std::vector<float>& values) {
  if (!linear.lora || !linear.lora->bias) return;
  const float* bias = linear.lora->bias.value().data;
  for (std::int64_t i = 0; i < w.rows; ++i)
    values[static_cast<std::size_t>(w.first_row + i)] += linear.lora->scale * bias[i];
}

void replace_rows(const TrainedTokens& own, Mat values) {
  for (std::size_t k = 0; k < own.tokens.size(); ++k)
    std::copy_n(own.rows.value().row(own.numbers[k]), values.cols, values.row(own.tokens[k]));
}

}  // namespace

std::vector<float> tensor_values(CausalLm& model, std::span<const WeightName> rows, bool merge) {
  std::vector<float> values(static_cast<std::size_t>(rows[0].tensor_rows * rows[0].cols));
  const std::optional<LoraAdapter> none;
  for (const WeightName& w : rows) {
    if (Linear* linear = linear_at(model, w)) {
      if (w.bias) {
        vector_values(linear->bias, linear->frozen_bias, w, values);
        if (merge) add_adapter_bias(*linear, w, values);
      } else {
        matrix_values(linear->value(), merge ? linear->lora : none, false, rows_of(values, w));
      }
    } else if (Norm* norm = norm_at(model, w)) {
      vector_values(w.bias ? norm->bias : norm->weight, w.bias ? norm->frozen_bias : norm->frozen, w, values);
    } else if (w.role == WeightRole::sinks) {
      const Attention& attention = model.layers[static_cast<std::size_t>(w.layer)].attention;
      vector_values(attention.sinks, attention.frozen_sinks, w, values);
    } else if (w.role == WeightRole::router_correction) {
      const Moe& moe = model.layers[static_cast<std::size_t>(w.layer)].mlp.moe;
      vector_values({}, moe.router.rule.correction, w, values);
    } else if (const VectorPlace place = vector_at(model, w); place.frozen) {
      vector_values(place.trained ? *place.trained : ParameterRef{}, *place.frozen, w, values);
    } else {
      const Embedding& e = model.embedding;
      kernels::Weight table = w.role == WeightRole::embed  ? e.value()
                              : w.role == WeightRole::head ? model.head.value()
                              : e.positions                ? e.positions.weight()
                                                           : e.frozen_positions;
      const std::optional<LoraAdapter>* lora = merge ? adapter_at(model, w) : nullptr;
      const Mat all{values.data(), table.rows, table.cols};
      matrix_values(table, lora ? *lora : none, w.role == WeightRole::embed, all);
      if (merge && w.role == WeightRole::embed) replace_rows(e.trained_tokens, all);
      if (merge && w.role == WeightRole::head) replace_rows(model.head.trained_tokens, all);
    }
  }
  if (!rows[0].reordered()) return values;
  const StoredOrder order = rows[0].order();
  std::vector<float> stored(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    stored[static_cast<std::size_t>(order.place(static_cast<std::int64_t>(i)))] = values[i];
  return stored;
}

}  // namespace dml
