#include "nn/linear.h"

#include <algorithm>
#include <span>

#include "core/error.h"
#include "kernels/dora.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/lora.h"

namespace dml {
Linear::Saved Linear::Saved::slice(std::int64_t first, std::int64_t count) const {
  Saved part{{}, plain.slice(first, count), norms};
  if (down.data) part.down = down.slice(first, count);
  return part;
}

Linear::Saved Linear::plan(std::int64_t tokens, Keeping keeping, Arena& saved) const {
  Saved s;
  if (!lora) return s;
  s.down = saved.matrix(tokens, lora->a.rows);
  if (lora->magnitude) {
    s.plain = Kept::plan(tokens, out(), keeping, saved);
    s.norms = saved.matrix(1, out());
  }
  return s;
}

void Linear::forward(ConstMat x, Mat y, Write mode, Saved& s, Pass& pass) const {
  if (weight) pass.need(weight, 1);
  if (x.rows == 0) return;
  if (pass.rows != kernels::Rows::by_count) return generate(x, y, mode, pass);
  Arena::Scope scope(pass.arena);
  // DoRA scales the sum of both products, so it cannot add to y in place.
  const LoraAdapter* adapter = lora && !pass.base_alone ? &*lora : nullptr;
  const bool dora = adapter && adapter->magnitude;
  Mat product = dora ? s.plain.open(pass.arena) : y;
  const Write how = dora ? Write::set : mode;
  if (adapter) {
    kernels::lora_down(adapter_input(*adapter, x, pass), adapter->a.value(), s.down, pass.rows);
    Mat scaled = pass.arena.matrix(s.down.rows, s.down.cols);
    kernels::copy(s.down, scaled);
    kernels::scale(scaled, adapter->scale);
    kernels::gemm_nt_with(x, value(), scaled, adapter->b.value(), product, how, pass.rows);
  } else {
    kernels::gemm_nt(x, value(), product, how, pass.rows);
  }
  if (dora) {
    if (!adapter->norms)
      kernels::dora_norms(value(), adapter->a.value(), adapter->b.value(), adapter->scale, s.norms.data);
    Mat scaled = pass.arena.matrix(y.rows, y.cols);
    kernels::copy(product, scaled);
    s.plain.close(product);
    kernels::dora_scale(adapter->magnitude.value().data, adapter->norms ? adapter->norms : s.norms.data, scaled);
    if (mode == Write::set) kernels::copy(scaled, y);
    else kernels::add_scaled(scaled, 1, y);
  }
  if (adapter && adapter->bias) {
    Mat scaled = pass.arena.matrix(1, y.cols);
    kernels::copy(adapter->bias.value(), scaled);
    kernels::scale(scaled, adapter->scale);
    kernels::add_bias(scaled.data, y);
  }
  add_bias(y);
}

void Linear::add_bias(Mat y) const {
  if (bias) kernels::add_bias(bias.value().data, y);
  else if (frozen_bias) kernels::add_bias(frozen_bias, y);
}

// One product for all rows, then each adapter's part for its own. DoRA scales the sum of both, so it cannot add to y in place.
void Linear::generate(ConstMat x, Mat y, Write mode, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  const LoraAdapter* own = lora ? &*lora : nullptr;
  const AdapterRows whole{pass.first_row, x.rows, 0};
  const auto choices = own ? std::span(&own, 1) : std::span(adapters);
  const auto groups = own ? std::span(&whole, 1) : pass.adapters;
  std::int64_t rank = 0;
  bool dora = false, biased = false;
  for (const LoraAdapter* l : choices)
    if (l) rank = std::max(rank, l->a.rows), dora = dora || l->magnitude, biased = biased || l->bias;
  const bool apart = dora && mode == Write::add;
  Mat product = apart ? pass.arena.matrix(y.rows, y.cols) : y;
  kernels::gemm_nt(x, value(), product, apart ? Write::set : mode, pass.rows);
  Mat down = pass.arena.matrix(x.rows, rank), row = pass.arena.matrix(dora || biased, y.cols);
  for (const AdapterRows& g : groups) {
    const LoraAdapter* adapter = g.adapter < std::ssize(choices) && g.adapter >= 0 ? choices[static_cast<std::size_t>(g.adapter)] : nullptr;
    const std::int64_t first = std::max<std::int64_t>(0, g.first - pass.first_row),
                       last = std::min(x.rows, g.first + g.count - pass.first_row);
    if (!adapter || first >= last) continue;
    add_adapter(*adapter, x.slice(first, last - first), {down.data, last - first, adapter->a.rows}, row,
                product.slice(first, last - first), pass);
  }
  if (apart) kernels::add_scaled(product, 1, y);
  add_bias(y);
}

// y = m / ‖W + s·BA‖ · (y + s · (x Aᵀ) Bᵀ) + s · c.
void Linear::add_adapter(const LoraAdapter& adapter, ConstMat x, Mat down, Mat row, Mat y, Pass& pass) const {
  kernels::lora_down(x, adapter.a.value(), down, pass.rows);
  kernels::scale(down, adapter.scale);
  kernels::lora_up(down, adapter.b.value(), 1, y);
  if (adapter.magnitude) {
    if (!adapter.norms) kernels::dora_norms(value(), adapter.a.value(), adapter.b.value(), adapter.scale, row.data);
    kernels::dora_scale(adapter.magnitude.value().data, adapter.norms ? adapter.norms : row.data, y);
  }
  if (adapter.bias) {
    kernels::copy(adapter.bias.value(), row);
    kernels::scale(row, adapter.scale);
    kernels::add_bias(row.data, y);
  }
}

void Linear::backward(ConstMat dy, ConstMat x, const Saved& s, Mat dx, Write mode, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  if (Mat db = bias ? bias.grad() : Mat{}; !db.empty() && x.rows > 0) kernels::bias_backward(dy, db.data, pass.arena);
  if (Mat dc = lora && lora->bias ? lora->bias.grad() : Mat{}; !dc.empty() && x.rows > 0) {
    Mat sum = pass.arena.matrix(1, dy.cols);
    kernels::fill(sum.flat(), 0);
    kernels::bias_backward(dy, sum.data, pass.arena);
    kernels::add_scaled(sum, lora->scale, dc);
  }
  if (lora && lora->magnitude && x.rows > 0) {
    Mat dplain = pass.arena.matrix(dy.rows, dy.cols);
    if (Mat dm = lora->magnitude.grad(); !dm.empty())
      kernels::dora_magnitude_backward(dy, s.plain.read(pass.arena), s.norms.data, dm.data, pass.arena);
    kernels::copy(dy, dplain);
    kernels::dora_scale(lora->magnitude.value().data, s.norms.data, dplain);
    dy = dplain;
  }
  if (weight) {
    pass.begin_gradient(weight);
    if (x.rows > 0)
      if (auto dw = weight.whole_grad(); !dw.values.empty()) kernels::gemm_tn(dy, x, dw.values, dw.mode);
    pass.end_gradient(weight);
    pass.need(weight, -1);
  }
  if (x.rows == 0) return;
  if (!lora) {
    if (!dx.empty()) kernels::gemm_nn(dy, value(), dx, mode);
    return;
  }
  Mat ddown = pass.arena.matrix(dy.rows, s.down.cols);
  kernels::lora_up_backward(dy, s.down, lora->b.value(), lora->scale, ddown, lora->b.grad(), pass.arena);
  if (!dx.empty() && !drops(*lora, pass)) {
    kernels::gemm_nn_with(dy, value(), ddown, lora->a.value(), dx, mode);
    dx = {};
  } else if (!dx.empty()) {
    kernels::gemm_nn(dy, value(), dx, mode);
  }
  adapter_input_backward(*lora, ddown, x, dx, pass);
}

}  // namespace dml
