#include "nn/moe.h"

#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/elementwise.h"

namespace dml {
namespace {

constexpr std::int64_t kChunkRows = 512, kChunkElements = std::int64_t{8} << 20;  // of a chunk, whichever is more

}  // namespace

/// Rows [first, first + count) and their experts, in the order of processing.
struct Moe::Chunk {
  std::int64_t first, count;
  std::span<const std::int32_t> experts;
  const kernels::Dispatch& dispatch;

  struct Rows {
    std::int64_t expert, first, count;
  };
  std::int64_t size() const { return std::ssize(experts); }
  /// Rows of the i-th expert; in a dry run any expert may have all rows.
  Rows rows(std::int64_t i) const {
    if (dry_run()) return {i, first, count};
    const auto e = static_cast<std::size_t>(experts[static_cast<std::size_t>(i)]);
    const std::int64_t begin = std::max<std::int64_t>(dispatch.starts[e], first),
                       end = std::min<std::int64_t>(dispatch.starts[e + 1], first + count);
    return {static_cast<std::int64_t>(e), begin, std::max<std::int64_t>(end - begin, 0)};
  }
};

bool Moe::experts_train() const {
  return std::ranges::any_of(experts, [](const Mlp& e) { return e.trains(); });
}

bool Moe::trains_whole() const {
  return std::ranges::any_of(experts, [](const Mlp& e) { return e.gate.weight || e.up.weight || e.down.weight; });
}

bool Moe::trains() const { return router.gate.trains() || experts_train() || shared.trains() || shared_gate.trains(); }

const Linear& Moe::projection(std::int64_t expert, Role role) const {
  const Mlp& e = experts[static_cast<std::size_t>(expert)];
  return role == kGate ? e.gate : role == kUp ? e.up : e.down;
}

Moe::Saved Moe::plan(std::int64_t tokens, SavePolicy policy, Arena& saved) const {
  Saved s;
  const std::int64_t rows = tokens * router.rule.chosen, count = std::ssize(experts);
  s.router = router.plan(tokens, policy, saved);
  s.dispatch = {saved.take<std::int32_t>(count + 1), saved.take<std::int32_t>(rows), saved.take<std::int32_t>(rows)};
  s.inner = GateUp::plan(static_cast<bool>(experts[0].gate), rows, width(), policy, saved);
  for (Role role : {kGate, kUp, kDown}) {
    std::int64_t rank = 0;
    bool dora = false;
    for (std::int64_t e = 0; e < count; ++e)
      if (auto& lora = projection(e, role).lora) rank = std::max(rank, lora->a.rows), dora |= bool(lora->magnitude);
    s.low[role] = saved.take<float>(rows * rank);
    if (!dora) continue;
    const std::int64_t out = projection(0, role).out();
    s.plain[role] = SavedActivation::plan(rows, out, policy.intermediates, saved);
    s.norms[role] = saved.matrix(count, out);
  }
  if (!shared.up) return s;
  s.shared = shared.plan(tokens, policy, saved);
  if (!shared_gate) return s;
  s.shared_gate = shared_gate.plan(tokens, policy, saved);
  s.shared_score = saved.matrix(tokens, 1);
  s.shared_out = SavedActivation::plan(tokens, shared.down.out(), policy.intermediates, saved);
  return s;
}

Linear::Saved Moe::part(const Saved& s, Role role, std::int64_t expert, std::int64_t row, std::int64_t count) const {
  Linear::Saved part;
  const auto& lora = projection(expert, role).lora;
  if (!lora) return part;
  const std::int64_t rank = lora->a.rows, rows = std::ssize(s.dispatch.rows);
  part.down = {s.low[role].data() + (rows > 0 ? std::ssize(s.low[role]) / rows * row : 0), count, rank};
  if (!lora->magnitude) return part;
  part.plain = s.plain[role].slice(row, count);
  part.norms = s.norms[role].slice(expert, 1);
  return part;
}

// Whether the experts' values or gradients are bound one expert at a time.
bool Moe::one_at_a_time(bool backwards) const {
  auto in_parts = [&](const Linear& l) {
    return l.weight && (!l.weight.unit->value || (backwards && !l.weight.unit->grad));
  };
  return std::ranges::any_of(experts,
                             [&](const Mlp& e) { return in_parts(e.gate) || in_parts(e.up) || in_parts(e.down); });
}

template <class F>
void Moe::each_chunk(std::int64_t tokens, const Saved& s, bool backwards, Pass& pass, F chunk) const {
  const std::int64_t all = tokens * router.rule.chosen;
  const bool one = one_at_a_time(backwards);
  // An expert has at most as many rows as there are tokens.
  const std::int64_t some = std::max(kChunkRows, kChunkElements / std::max(width(), experts[0].down.out()) / 16 * 16);
  const std::int64_t limit = one ? tokens : std::min(all, trains_whole() ? std::max(tokens, some) : some);
  Arena::Scope scope(pass.arena);
  const auto order = pass.arena.take<std::int32_t>(std::ssize(experts));
  auto visit = [&](std::int64_t first, std::int64_t count, std::span<const std::int32_t> of) {
    Arena::Scope inner(pass.arena);
    chunk(Chunk{first, count, of, s.dispatch});
  };
  if (dry_run()) return visit(0, limit, order);
  auto rows = [&](std::int32_t e) {
    return std::int64_t{s.dispatch.starts[static_cast<std::size_t>(e) + 1]} -
           s.dispatch.starts[static_cast<std::size_t>(e)];
  };
  std::size_t visited = 0;
  for (std::int32_t e = 0; e < std::ssize(experts); ++e)
    if (one || rows(e) > 0) order[visited++] = e;
  if (backwards) std::reverse(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(visited));
  std::int64_t seen = 0, part = 0;  // rows so far, and those of the next expert
  for (std::size_t i = 0; i < visited;) {
    std::size_t next = i + 1;
    std::int64_t count = rows(order[i]) - part;
    if (count > limit) {
      count = limit, part += limit, next = i;
    } else {
      part = 0;
      while (!one && next < visited && count + rows(order[next]) <= limit) count += rows(order[next++]);
    }
    const std::size_t some_experts = std::max(next, i + 1) - i;
    visit(backwards ? all - seen - count : seen, count, order.subspan(i, some_experts));
    seen += count, i = next;
  }
}

LinearRows Moe::layer(const Chunk& chunk, Role role, std::int64_t i, const Saved& s) const {
  const Chunk::Rows r = chunk.rows(i);
  const std::int64_t before = dry_run() ? 0 : r.first - s.dispatch.starts[static_cast<std::size_t>(r.expert)];
  LinearRows rows{&projection(r.expert, role), r.first - chunk.first, r.count, before,
                  part(s, role, r.expert, r.first, r.count)};
  rows.biased = role != kDown;  // biases of down are multiplied by the routing weights
  if (!dry_run())
    rows.slots = s.dispatch.slots.subspan(static_cast<std::size_t>(r.first), static_cast<std::size_t>(r.count));
  rows.chosen = router.rule.chosen;
  return rows;
}

void Moe::project(const Chunk& chunk, Role role, ConstMat x, Mat y, const Saved& s, Pass& pass) const {
  auto layers = [&](std::int64_t i) { return layer(chunk, role, i, s); };
  forward_linears({chunk.size(), layers}, x, y, Write::set, pass);
}

void Moe::project_backward(const Chunk& chunk, Role role, ConstMat dy, ConstMat x, const Saved& s, Mat dx, Write mode,
                           Pass& pass) const {
  auto layers = [&](std::int64_t i) { return layer(chunk, role, i, s); };
  backward_linears({chunk.size(), layers}, dy, x, dx, mode, pass);
}

// Calls f(rows, bias, gradient of the bias) for every bias added to the output of down.
template <class F>
void Moe::each_bias(const Chunk& chunk, const Saved& s, const Pass& pass, F f) const {
  using kernels::ExpertBias;
  for (std::int64_t i = 0; i < chunk.size(); ++i) {
    const Chunk::Rows r = chunk.rows(i);
    const Linear& down = projection(r.expert, kDown);
    if (const float* bias = down.bias ? down.bias.value().data : down.frozen_bias)
      f(r, ExpertBias{bias, 1}, down.bias ? down.bias.grad().data : nullptr);
    each_adapter(layer(chunk, kDown, i, s), pass, [&](const LoraAdapter& a, std::int64_t first, std::int64_t last) {
      if (a.bias)
        f({r.expert, r.first + first, last - first}, ExpertBias{a.bias.value().data, a.scale}, a.bias.grad().data);
    });
  }
}

void Moe::forward_experts(ConstMat x, Mat y, const Saved& s, Pass& all) const {
  const std::int64_t chosen = router.rule.chosen, hidden = x.cols;
  each_chunk(x.rows, s, false, all, [&](const Chunk& chunk) {
    Pass pass = all;
    const std::int64_t first = chunk.first, count = chunk.count;
    const GateUp saved = s.inner.slice(first, count);
    const bool gates = static_cast<bool>(experts[0].gate);
    Mat in = pass.arena.matrix(count, hidden);
    const GateUp inner = experts[0].open(saved, count, pass.arena);
    kernels::gather_tokens(x, s.dispatch, chosen, first, in);
    if (gates) project(chunk, kGate, in, inner.gate.whole, s, pass);
    project(chunk, kUp, in, inner.up.whole, s, pass);
    Mat h = experts[0].activate(inner, saved, pass.arena), out = in;  // the input is overwritten
    kernels::apply_row_weights(h, s.dispatch, s.router.routing.weights, first);
    project(chunk, kDown, h, out, s, pass);
    each_bias(chunk, s, pass, [&](const Chunk::Rows& r, kernels::ExpertBias bias, float*) {
      kernels::add_weighted_bias(bias, s.dispatch, s.router.routing.weights, r.first,
                                 out.slice(r.first - first, r.count));
    });
    kernels::scatter_tokens(out, s.dispatch, chosen, first, kernels::Order::ascending, y);
  });
}

void Moe::backward_experts(ConstMat dy, ConstMat x, const Saved& s, Mat dx, Mat dweights, Pass& all) const {
  const std::int64_t chosen = router.rule.chosen, hidden = x.cols;
  const ConstMat weights = s.router.routing.weights;
  auto train = [&](Role role) {
    for (std::int64_t e = 0; e < std::ssize(experts); ++e)
      if (projection(e, role).trains()) return true;
    return false;
  };
  const bool down_trains = train(kDown), reads_x = !s.inner || train(kGate) || train(kUp);
  each_chunk(x.rows, s, true, all, [&](const Chunk& chunk) {
    Pass pass = all;
    const std::int64_t first = chunk.first, count = chunk.count;
    const bool gates = static_cast<bool>(experts[0].gate);
    Mat dout = pass.arena.matrix(count, hidden), in = reads_x ? pass.arena.matrix(count, hidden) : dout;
    const GateUp inner = s.inner ? s.inner.slice(first, count) : experts[0].open({}, count, pass.arena);
    kernels::gather_tokens(dy, s.dispatch, chosen, first, dout);
    if (reads_x) kernels::gather_tokens(x, s.dispatch, chosen, first, in);
    if (!s.inner) {
      if (gates) project(chunk, kGate, in, inner.gate.whole, s, pass);
      project(chunk, kUp, in, inner.up.whole, s, pass);
    }
    Mat h = pass.arena.matrix(count, width()), dh = pass.arena.matrix(count, width()), weighed = h;
    experts[0].activate_saved(inner, h);
    if (down_trains) {
      weighed = pass.arena.matrix(count, width());
      kernels::copy(h, weighed);
      kernels::apply_row_weights(weighed, s.dispatch, weights, first);
    }
    project_backward(chunk, kDown, dout, weighed, s, dh, Write::set, pass);
    kernels::weight_gradients(dh, h, s.dispatch, first, dweights);
    each_bias(chunk, s, pass, [&](const Chunk::Rows& r, kernels::ExpertBias bias, float* dbias) {
      kernels::weighted_bias_backward(dout.slice(r.first - first, r.count), bias, s.dispatch, weights, r.first,
                                      dweights, dbias);
    });
    kernels::apply_row_weights(dh, s.dispatch, weights, first);
    const GateUp d = experts[0].activate_backward(dh, inner, h, pass);
    Mat din = dx.empty() ? Mat{} : pass.arena.matrix(count, hidden);
    project_backward(chunk, kUp, d.up.whole, in, s, din, Write::set, pass);
    if (gates) project_backward(chunk, kGate, d.gate.whole, in, s, din, Write::add, pass);
    if (!dx.empty()) kernels::scatter_tokens(din, s.dispatch, chosen, first, kernels::Order::descending, dx);
  });
}

void Moe::forward_shared(ConstMat x, Mat y, const Saved& s, Pass& pass) const {
  if (!shared.up) return;
  if (!shared_gate) return shared.forward(x, y, Write::add, s.shared, pass);
  Arena::Scope scope(pass.arena);
  Mat out = s.shared_out.open(pass.arena);
  shared.forward(x, out, Write::set, s.shared, pass);
  Linear::Saved score = s.shared_gate;
  shared_gate.forward(x, s.shared_score, Write::set, score, pass);
  kernels::add_gated_rows(s.shared_score, out, y);
  s.shared_out.close(out);
}

void Moe::backward_shared(ConstMat dy, ConstMat x, const Saved& s, Mat dx, Pass& pass) const {
  if (!shared.up) return;
  Arena::Scope scope(pass.arena);
  Mat dshared = dx.empty() ? Mat{} : pass.arena.matrix(dx.rows, dx.cols);
  if (!shared_gate) {
    shared.backward(dy, x, s.shared, dshared, pass);
  } else {
    Mat dout = pass.arena.matrix(dy.rows, dy.cols), dscore = pass.arena.matrix(dy.rows, 1);
    kernels::gated_rows_backward(dy, s.shared_score, s.shared_out.read(pass.arena), dout, dscore);
    shared_gate.backward(dscore, x, s.shared_gate, dx, Write::add, pass);
    shared.backward(dout, x, s.shared, dshared, pass);
  }
  if (!dx.empty()) kernels::add_scaled(dshared, 1, dx);
}

void Moe::add_jitter(Mat x, Pass& pass) const {
  const Random random(pass.seed, Purpose::noise, pass.micro_batch, stream + 1);
  constexpr std::int64_t kGrain = 4096;
  parallel_ranges(x.size(), kGrain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i)
      x.data[i] *= 1 + jitter * (2 * random.uniform(static_cast<std::uint64_t>(i)) - 1);
  });
}

void Moe::forward(ConstMat x, Mat y, Write mode, const Saved& s, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  if (pass.training && jitter > 0) {
    Mat jittered = pass.arena.matrix(x.rows, x.cols);
    kernels::copy(x, jittered);
    add_jitter(jittered, pass);
    x = jittered;
  }
  router.forward(x, s.router, pass);
  kernels::dispatch(router.rule, s.router.routing, s.dispatch);
  if (x.data == y.data) {  // x is read before y is added to
    Mat in = pass.arena.matrix(x.rows, x.cols);
    kernels::copy(x, in);
    x = in;
  }
  if (mode == Write::set) kernels::fill(y.flat(), 0);
  forward_experts(x, y, s, pass);
  forward_shared(x, y, s, pass);
}

void Moe::backward(ConstMat dy, ConstMat x, const Saved& s, Mat dx, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  const bool jittered = pass.training && jitter > 0;
  if (jittered) {
    Mat in = pass.arena.matrix(x.rows, x.cols);
    kernels::copy(x, in);
    add_jitter(in, pass);
    x = in;
  }
  Mat dweights = pass.arena.matrix(x.rows, router.rule.chosen);
  if (!dx.empty()) kernels::fill(dx.flat(), 0);
  backward_shared(dy, x, s, dx, pass);
  backward_experts(dy, x, s, dx, dweights, pass);
  router.backward(dweights, x, s.router, dx, pass);
  if (jittered && !dx.empty()) add_jitter(dx, pass);
}

}  // namespace dml
