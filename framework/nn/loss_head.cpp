#include "nn/loss_head.h"

#include "core/parallel.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/lora.h"

namespace dml {

void LossHead::hidden(ConstMat x, Mat h) const {
  norm.forward(x, h);
  if (scale != 1) kernels::scale(h, scale);
}

void LossHead::hidden_backward(Mat dh, ConstMat x, Mat d, Arena& arena) const {
  if (scale != 1) kernels::scale(dh, scale);
  norm.backward(dh, x, d, Write::set, arena);
}

kernels::HeadBias LossHead::bias_of(bool gradient) const {
  if (!bias) return {frozen_bias};
  return {bias.value().data, gradient ? bias.grad().data : nullptr};
}

double LossHead::loss(ConstMat x, const kernels::RowLosses& rows, Mat d, Pass& pass) const {
  if (outputs_rewards()) return outputs(x, rows, d, pass);
  Arena::Scope scope(pass.arena);
  Mat h = pass.arena.matrix(x.rows, x.cols);
  hidden(x, h);
  if (weight && weight.part > 0 && (!weight.unit->value || (d.data && !weight.unit->grad))) {
    Mat dh = d.data ? pass.arena.matrix(x.rows, x.cols) : Mat{};
    double sum = loss_in_parts(h, rows, dh, pass);
    if (!d.empty()) hidden_backward(dh, x, d, pass.arena);
    return sum;
  }
  if (x.rows == 0) return 0;
  auto dhead = d.empty() || !weight ? ParameterRef::Gradient{} : weight.whole_grad();
  // The gradient of h overwrites h unless the gradient of A still needs h.
  const LoraAdapter* adapter = lora && !pass.base_only ? &*lora : nullptr;
  Mat dh = d.empty() ? Mat{} : adapter ? pass.arena.matrix(x.rows, x.cols) : h;
  kernels::LowRankLogits low;
  if (adapter) {
    low = {pass.arena.matrix(x.rows, adapter->a.rows), adapter->b.value(), adapter->scale, {}, {}};
    adapter_down(AdaptedRows{adapter, 0, h.rows, pass.first_row, low.down}, h, pass);
  }
  if (adapter && !d.empty()) {
    low.ddown = pass.arena.matrix(x.rows, adapter->a.rows);
    low.db = adapter->b.grad();
  }
  const bool replaces = trained_tokens && !pass.base_only;
  kernels::ReplacedRows replaced;
  if (replaces)
    replaced = {trained_tokens.tokens, trained_tokens.numbers, trained_tokens.rows.value(),
                d.empty() ? Mat{} : trained_tokens.rows.grad()};
  double sum = kernels::cross_entropy(
      {h, rows, softcap, bias_of(!d.empty()), dh, pass.low_memory},
      {value(), dhead.values, dhead.mode, adapter ? &low : nullptr, replaces ? &replaced : nullptr}, pass.arena);
  for (std::size_t k = 0; weight && !d.empty() && k < weight.part_count(); ++k) pass.end_gradient(weight.in_part(k));
  if (adapter && !d.empty())
    adapter_down_backward(AdaptedRows{adapter, 0, h.rows, pass.first_row, low.ddown}, h, dh, pass);
  if (!d.empty()) hidden_backward(dh, x, d, pass.arena);
  return sum;
}

// y = h·w; the gradient of h is the row's weight times w. In float64 and without optimization, since there is one row
// per document.
double LossHead::outputs(ConstMat x, const kernels::RowLosses& rows, Mat d, Pass& pass) const {
  if (x.rows == 0) return 0;
  Arena::Scope scope(pass.arena);
  Mat h = pass.arena.matrix(x.rows, x.cols), w = pass.arena.matrix(1, x.cols);
  hidden(x, h);
  if (!dry_run()) kernels::unpack(value(), 0, 1, 0, x.cols, w.data);
  double sum = 0;
  for (std::int64_t i = 0; !dry_run() && i < x.rows; ++i) {
    double y = 0;
    for (std::int64_t j = 0; j < x.cols; ++j) y += static_cast<double>(h.row(i)[j]) * static_cast<double>(w.data[j]);
    if (!rows.losses.empty()) rows.losses[static_cast<std::size_t>(i)] = static_cast<float>(y);
    sum += y;
  }
  if (d.empty()) return sum;
  auto factor = [&](std::int64_t i) { return rows.weights.empty() ? 1.f : rows.weights[static_cast<std::size_t>(i)]; };
  if (auto dw = weight ? weight.whole_grad() : ParameterRef::Gradient{}; !dw.values.empty() && !dry_run())
    for (std::int64_t j = 0; j < x.cols; ++j) {
      double slope = dw.mode == Write::add ? static_cast<double>(dw.values.data[j]) : 0;
      for (std::int64_t i = 0; i < x.rows; ++i)
        slope += static_cast<double>(factor(i)) * static_cast<double>(h.row(i)[j]);
      dw.values.data[j] = static_cast<float>(slope);
    }
  for (std::int64_t i = 0; !dry_run() && i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j) h.row(i)[j] = factor(i) * w.data[j];
  hidden_backward(h, x, d, pass.arena);
  return sum;
}

double LossHead::loss_in_parts(ConstMat h, const kernels::RowLosses& rows, Mat dh, Pass& pass) const {
  std::vector<std::int64_t> starts;
  for (std::size_t k = 0; k < weight.part_count(); ++k)
    starts.push_back((weight.in_part(k).offset - weight.offset) / weight.cols);
  starts.push_back(weight.rows);
  auto open = [&](std::size_t k, bool gradient) -> kernels::HeadParts::Rows {
    const ParameterRef part = weight.in_part(k);
    pass.need(part, 1);
    if (gradient) pass.begin_gradient(part);
    return {part.weight(), gradient ? part.grad() : Mat{}};
  };
  auto close = [&](std::size_t k) { pass.end_gradient(weight.in_part(k)); };
  return kernels::cross_entropy({h, rows, softcap, bias_of(dh.data != nullptr), dh, pass.low_memory},
                                kernels::HeadParts{starts, open, close}, pass.arena);
}

void LossHead::logits(ConstMat x, Mat logits, Arena& arena, kernels::RowMethod how) const {
  Arena::Scope scope(arena);
  Mat h = arena.matrix(x.rows, x.cols);
  hidden(x, h);
  kernels::gemm_nt(h, value(), logits, Write::set, how);
  if (trained_tokens) {
    Mat rows = arena.matrix(x.rows, trained_tokens.rows.rows);
    kernels::gemm_nt(h, kernels::weight_of(trained_tokens.rows.value()), rows, Write::set, how);
    for (std::size_t k = 0; !dry_run() && k < trained_tokens.tokens.size(); ++k)
      for (std::int64_t i = 0; i < x.rows; ++i)
        logits.row(i)[trained_tokens.tokens[k]] = rows.row(i)[trained_tokens.numbers[k]];
  }
  if (lora) {
    Mat down = arena.matrix(x.rows, lora->a.rows);
    kernels::lora_down(kernels::AdapterDown{h, lora->a.value(), down}, arena, how);
    kernels::lora_up(kernels::AdapterUp{down, lora->b.value(), lora->scale, logits});
  }
  if (const float* b = bias_of(false).value) kernels::add_bias(b, logits);
  if (softcap > 0) kernels::soft_cap(softcap, logits);
}

}  // namespace dml
