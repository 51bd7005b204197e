#include "nn/linear.h"

#include <algorithm>
#include <span>

#include "core/error.h"
#include "kernels/dora.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/lora.h"
#include "nn/dora.h"
#include "nn/packed_weights.h"

namespace dml {
Linear::Saved Linear::Saved::slice(std::int64_t first, std::int64_t count) const {
  Saved part{{}, plain.slice(first, count), norms};
  if (down.data) part.down = down.slice(first, count);
  return part;
}

Linear::Saved Linear::plan(std::int64_t tokens, SavePolicy policy, Arena& saved) const {
  Saved s;
  if (!lora) return s;
  s.down = saved.matrix(tokens, lora->a.rows);
  if (lora->magnitude) {
    s.plain = SavedActivation::plan(tokens, out(), policy.intermediates, saved);
    s.norms = saved.matrix(1, out());
  }
  return s;
}

void Linear::forward(ConstMat x, Mat y, Write mode, Saved& s, Pass& pass) const {
  forward_linears(LinearRows{this, 0, x.rows, pass.first_row, s}, x, y, mode, pass);
}

void Linear::backward(ConstMat dy, ConstMat x, const Saved& s, Mat dx, Write mode, Pass& pass) const {
  backward_linears(LinearRows{this, 0, x.rows, pass.first_row, s}, dy, x, dx, mode, pass);
}

LinearRows::Range LinearRows::of_tokens(std::int64_t first, std::int64_t count) const {
  if (slots.empty()) return {std::max<std::int64_t>(0, first - first_row), std::min(rows, first + count - first_row)};
  auto row_of = [&](std::int64_t token) { return std::ranges::lower_bound(slots, token * chosen) - slots.begin(); };
  return {row_of(first), row_of(first + count)};
}

namespace {

using kernels::TaskList;

Mat part(const LinearRows& r, Mat m) { return m.slice(r.row, r.rows); }
ConstMat part(const LinearRows& r, ConstMat m) { return m.slice(r.row, r.rows); }

template <class F>
void each(const TaskList<LinearRows>& layers, F f) {
  for (std::int64_t i = 0; i < layers.size(); ++i) f(layers[i]);
}
template <class F>
bool any_of(const TaskList<LinearRows>& layers, F is) {
  bool any = false;
  each(layers, [&](const LinearRows& r) { any = any || is(r); });
  return any;
}
// Whether the pass includes a layer's own adapter.
auto adapted_in(const Pass& pass) {
  return [&pass](const LinearRows& r) { return r.linear->lora && !pass.base_only; };
}

// A scratch matrix for each layer, as wide as its rank.
class LowRank {
 public:
  LowRank(const TaskList<LinearRows>& layers, std::int64_t rows, Arena& scratch) {
    each(layers, [&](const LinearRows& r) { widest_ = std::max(widest_, r.saved.down.cols); });
    data_ = scratch.take<float>(rows * widest_).data();
  }
  Mat of(const LinearRows& r) const { return {data_ + r.row * widest_, r.rows, r.saved.down.cols}; }

 private:
  std::int64_t widest_ = 0;
  float* data_;
};

// The rows of each layer with an adapter; no rows for other layers.
auto adapter_rows(const TaskList<LinearRows>& layers, const LowRank* gradients, const Pass& pass) {
  return [&layers, gradients, &pass](std::int64_t i) {
    static constexpr LoraAdapter kNone;
    const LinearRows r = layers[i];
    if (!adapted_in(pass)(r)) return AdaptedRows{&kNone, 0, 0, 0, {}};
    return AdaptedRows{&*r.linear->lora, r.row, r.rows, r.first_row, gradients ? gradients->of(r) : r.saved.down};
  };
}

void add_bias(const LinearRows& r, Mat y) {
  const Linear& l = *r.linear;
  if (!r.biased || y.rows == 0) return;
  if (l.bias) kernels::add_bias(l.bias.value().data, y);
  else if (l.frozen_bias) kernels::add_bias(l.frozen_bias, y);
}

// y += scale · bias for every row. `row`: scratch memory as wide as y.
void add_adapter_bias(const LoraAdapter& adapter, Mat row, Mat y) {
  kernels::copy(adapter.bias.value(), row);
  kernels::scale(row, adapter.scale);
  kernels::add_bias(row.data, y);
}

void add_bias_gradients(const LinearRows& r, ConstMat dy, Pass& pass) {
  const Linear& l = *r.linear;
  if (dy.rows == 0) return;
  Arena::Scope scope(pass.arena);
  if (Mat db = l.bias && r.biased ? l.bias.grad() : Mat{}; !db.empty()) kernels::bias_backward(dy, db.data);
  if (Mat dc = l.lora && l.lora->bias && r.biased ? l.lora->bias.grad() : Mat{}; !dc.empty()) {
    Mat sum = pass.arena.matrix(1, dy.cols);
    kernels::fill(sum.flat(), 0);
    kernels::bias_backward(dy, sum.data);
    kernels::add_scaled(sum, l.lora->scale, dc);
  }
}

// y = m / ‖W + s·BA‖ · (y + s · (x Aᵀ) Bᵀ) + s · c, without s · c if the caller adds the biases.
void add_adapter(const LinearRows& r, const LoraAdapter& adapter, ConstMat x, Mat down, Mat row, Mat y, Pass& pass) {
  kernels::lora_down(kernels::AdapterDown{x, adapter.a.value(), down}, pass.arena, pass.rows);
  kernels::scale(down, adapter.scale);
  kernels::lora_up(kernels::AdapterUp{down, adapter.b.value(), 1, y});
  if (adapter.magnitude) {
    if (!adapter.norms)
      kernels::dora_norms(r.linear->value(), adapter.a.value(), adapter.b.value(), adapter.scale, row.data);
    kernels::dora_scale(adapter.magnitude.value().data, adapter.norms ? adapter.norms : row.data, y);
  }
  if (adapter.bias && r.biased) add_adapter_bias(adapter, row, y);
}

// Calls f for every adapter that rows of a layer may have in generation.
template <class F>
void each_possible(const Linear& l, F f) {
  if (l.lora) return f(*l.lora);
  for (const LoraAdapter* adapter : l.adapters)
    if (adapter) f(*adapter);
}

// A layer's rows in generation, with their inputs and outputs.
struct GeneratedRows {
  LinearRows rows;
  ConstMat x;
  Mat y;
};

// One product for all rows, then the term of each adapter for its rows; without the layers' biases.
void generate_products(const TaskList<GeneratedRows>& layers, Write mode, Pass& pass) {
  Arena::Scope scope(pass.arena);
  auto base = [&](std::int64_t i) {
    const GeneratedRows g = layers[i];
    return kernels::ForwardProduct{g.x, g.rows.linear->value(), g.y};
  };
  kernels::gemm_nt({layers.size(), base}, mode, pass.rows);
  std::int64_t rows = 0, rank = 0, width = 0;  // maxima over the layers
  for (std::int64_t i = 0; i < layers.size(); ++i) {
    const GeneratedRows g = layers[i];
    rows = std::max(rows, g.x.rows);
    each_possible(*g.rows.linear, [&](const LoraAdapter& l) {
      rank = std::max(rank, l.a.rows);
      if (l.magnitude || l.bias) width = std::max(width, g.y.cols);
    });
  }
  Mat down = pass.arena.matrix(rows, rank), row = pass.arena.matrix(1, width);
  for (std::int64_t i = 0; i < layers.size(); ++i) {
    const GeneratedRows g = layers[i];
    each_adapter(g.rows, pass, [&](const LoraAdapter& adapter, std::int64_t first, std::int64_t last) {
      if (const std::int64_t count = last - first; count > 0)
        add_adapter(g.rows, adapter, g.x.slice(first, count), {down.data, count, adapter.a.rows},
                    {row.data, 1, g.y.cols}, g.y.slice(first, count), pass);
    });
  }
}

// DoRA scales the sum of both products, so it cannot be added to y in place.
void generate(const TaskList<LinearRows>& layers, ConstMat x, Mat y, Write mode, Pass& pass) {
  Arena::Scope scope(pass.arena);
  bool dora = false;
  each(layers, [&](const LinearRows& r) {
    each_possible(*r.linear, [&](const LoraAdapter& l) { dora = dora || l.magnitude; });
  });
  const bool apart = dora && mode == Write::add;
  Mat product = apart ? pass.arena.matrix(y.rows, y.cols) : y;
  auto rows = [&](std::int64_t i) {
    const LinearRows r = layers[i];
    return GeneratedRows{r, part(r, x), part(r, product)};
  };
  generate_products({layers.size(), rows}, apart ? Write::set : mode, pass);
  if (apart) kernels::add_scaled(product, 1, y);
  each(layers, [&](const LinearRows& r) { add_bias(r, part(r, y)); });
}

void add_weight_gradients(const TaskList<LinearRows>& layers, ConstMat dy, ConstMat x, Pass& pass) {
  if (!any_of(layers, [](const LinearRows& r) { return static_cast<bool>(r.linear->weight); })) return;
  Arena::Scope scope(pass.arena);
  auto gradients = pass.arena.take<ParameterRef::Gradient>(layers.size());
  for (std::int64_t i = 0; i < layers.size(); ++i) {
    const LinearRows r = layers[i];
    if (r.linear->weight) pass.begin_gradient(r.linear->weight);
    if (dry_run()) continue;
    gradients[static_cast<std::size_t>(i)] = {};
    if (r.linear->weight && r.rows > 0) gradients[static_cast<std::size_t>(i)] = r.linear->weight.whole_grad();
  }
  auto product = [&](std::int64_t i) {
    const ParameterRef::Gradient& dw = gradients[static_cast<std::size_t>(i)];
    if (dw.values.empty()) return kernels::WeightGradient{};
    const LinearRows r = layers[i];
    return kernels::WeightGradient{part(r, dy), part(r, x), dw.values, dw.mode};
  };
  if (!dry_run()) kernels::gemm_tn({layers.size(), product});
  each(layers, [&](const LinearRows& r) {
    if (!r.linear->weight) return;
    pass.end_gradient(r.linear->weight);
    pass.need(r.linear->weight, -1);
  });
}

// If any of the layers has DoRA, calls f(layer, row) for every layer, whose rows begin at `row`, and returns true.
template <class F>
bool one_by_one(const TaskList<LinearRows>& layers, F f) {
  if (layers.size() == 1 || !any_of(layers, has_dora)) return false;
  each(layers, [&](LinearRows r) {
    const LinearRows all = r;
    r.row = 0;
    f(r, all);
  });
  return true;
}

}  // namespace

void forward_linears(const TaskList<LinearRows>& layers, ConstMat x, Mat y, Write mode, Pass& pass) {
  auto alone = [&](const LinearRows& own, const LinearRows& at) {
    forward_linears(own, part(at, x), part(at, y), mode, pass);
  };
  if (one_by_one(layers, alone)) return;
  each(layers, [&](const LinearRows& r) {
    if (r.linear->weight) pass.need(r.linear->weight, 1);
  });
  if (x.rows == 0) return;
  if (pass.generates) return generate(layers, x, y, mode, pass);
  Arena::Scope scope(pass.arena);
  const auto adapted = adapted_in(pass);
  const LinearRows first = layers[0];
  const bool dora = has_dora(first) && adapted(first);
  const Mat to = dora ? first.saved.plain.open(pass.arena) : y;
  const LowRank scaled(layers, x.rows, pass.arena);
  if (any_of(layers, adapted)) {
    auto rows = adapter_rows(layers, nullptr, pass);
    adapter_down({layers.size(), rows}, x, pass);
    each(layers, [&](const LinearRows& r) {
      if (!adapted(r)) return;
      kernels::copy(r.saved.down, scaled.of(r));
      kernels::scale(scaled.of(r), r.linear->lora->scale);
    });
  }
  const PackedCopies copies(layers, kernels::Direction::forward, false, pass);
  auto product = [&](std::int64_t i) {
    const LinearRows r = layers[i];
    kernels::ForwardProduct p{part(r, x), r.linear->value(), part(r, to)};
    if (adapted(r)) p.down = scaled.of(r), p.b = r.linear->lora->b.value();
    p.packed = copies[i];
    return p;
  };
  kernels::gemm_nt({layers.size(), product}, dora ? Write::set : mode, pass.rows);
  if (dora) scale_by_magnitude(first, to, y, mode, pass);
  each(layers, [&](const LinearRows& r) {
    if (r.rows == 0) return;
    if (adapted(r) && r.linear->lora->bias && r.biased)
      add_adapter_bias(*r.linear->lora, pass.arena.matrix(1, y.cols), part(r, y));
    add_bias(r, part(r, y));
  });
}

// Trained weights may be sharded and gathered for one product at a time.
void forward_fused(std::span<const FusedLinear> layers, ConstMat x, Pass& pass) {
  const bool frozen = std::ranges::none_of(layers, [](const FusedLinear& l) { return bool(l.linear->weight); });
  if (!pass.generates || !frozen || x.rows == 0) {
    for (const FusedLinear& l : layers) l.linear->forward(x, l.y, Write::set, *l.saved, pass);
    return;
  }
  auto rows = [&](std::int64_t i) {
    const FusedLinear& l = layers[static_cast<std::size_t>(i)];
    return GeneratedRows{{l.linear, 0, x.rows, pass.first_row, *l.saved}, x, l.y};
  };
  const TaskList<GeneratedRows> all(std::ssize(layers), rows);
  generate_products(all, Write::set, pass);
  for (std::int64_t i = 0; i < all.size(); ++i) add_bias(all[i].rows, all[i].y);
}

void backward_linears(const TaskList<LinearRows>& layers, ConstMat dy, ConstMat x, Mat dx, Write mode, Pass& pass) {
  auto alone = [&](const LinearRows& own, const LinearRows& at) {
    backward_linears(own, part(at, dy), part(at, x), dx.empty() ? Mat{} : part(at, dx), mode, pass);
  };
  if (one_by_one(layers, alone)) return;
  Arena::Scope scope(pass.arena);
  each(layers, [&](const LinearRows& r) { add_bias_gradients(r, part(r, dy), pass); });
  if (has_dora(layers[0]) && x.rows > 0) dy = magnitude_backward(layers[0], dy, pass);
  add_weight_gradients(layers, dy, x, pass);
  if (x.rows == 0) return;
  const auto adapted = adapted_in(pass);
  const bool adapters = any_of(layers, adapted);
  const LowRank gradients(layers, x.rows, pass.arena);
  if (adapters) {
    auto up = [&](std::int64_t i) {
      const LinearRows r = layers[i];
      if (!adapted(r)) return kernels::AdapterUpGradient{};
      const LoraAdapter& lora = *r.linear->lora;
      return kernels::AdapterUpGradient{part(r, dy), r.saved.down,    lora.b.value(),
                                        lora.scale,  gradients.of(r), lora.b.grad()};
    };
    kernels::lora_up_backward({layers.size(), up}, pass.arena);
  }
  bool masked = false;  // whether gradients of adapters' inputs pass a dropout mask
  each(layers, [&](const LinearRows& r) { masked |= adapted(r) && has_dropout(*r.linear->lora, pass); });
  if (!dx.empty()) {
    const PackedCopies copies(layers, kernels::Direction::backward, masked, pass);
    auto input = [&](std::int64_t i) {
      const LinearRows r = layers[i];
      kernels::InputGradient p{part(r, dy), r.linear->value(), part(r, dx)};
      if (adapted(r) && !masked) p.ddown = gradients.of(r), p.a = r.linear->lora->a.value();
      p.packed = copies[i];
      return p;
    };
    kernels::gemm_nn({layers.size(), input}, mode);
  }
  if (!adapters) return;
  auto rows = adapter_rows(layers, &gradients, pass);
  adapter_down_backward({layers.size(), rows}, x, masked ? dx : Mat{}, pass);
}

}  // namespace dml
