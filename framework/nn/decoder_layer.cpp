#include "nn/decoder_layer.h"

#include "core/error.h"
#include "kernels/elementwise.h"

namespace dml {

std::vector<Linear*> DecoderLayer::linears() {
  std::vector<Linear*> all;
  auto add = [&](std::initializer_list<Linear*> linears) {
    for (Linear* l : linears)
      if (*l) all.push_back(l);
  };
  auto add_mlp = [&](Mlp& m) { add({&m.gate, &m.up, &m.down}); };
  Latent& latent = attention.latent;
  add({&latent.q_a, &latent.q_b, &latent.kv_a, &latent.kv_b});
  add({&attention.q, &attention.k, &attention.v, &attention.qkv, &attention.o});
  Moe& moe = mlp.moe;
  add({&moe.router.gate, &moe.shared_gate});
  for (Mlp& expert : moe.experts) add_mlp(expert);
  add_mlp(moe.shared);
  add_mlp(mlp);
  return all;
}

DecoderLayer::Saved DecoderLayer::plan(std::int64_t tokens, std::int64_t rows, SavePolicy policy, Arena& saved) const {
  Saved s;
  std::int64_t width = attention.o.out();
  if (!parallel) s.mid = SavedActivation::plan(rows, width, policy.norm_inputs, saved);
  if (attention_post_norm) s.attention_out = SavedActivation::plan(rows, width, policy.norm_inputs, saved);
  if (mlp_post_norm) s.mlp_out = SavedActivation::plan(rows, width, policy.norm_inputs, saved);
  s.attention = attention.plan(tokens, tokens, rows, policy, saved);
  s.mlp = mlp.plan(rows, policy, saved);
  return s;
}

ConstMat DecoderLayer::normed(const Norm& norm, ConstMat x, Pass& pass) const {
  if (!norm) return x;
  Mat h = pass.arena.matrix(x.rows, x.cols);
  norm.forward(x, h);
  return h;
}

ConstMat DecoderLayer::recompute_norm(const Norm& norm, const SavedActivation& x, Pass& pass) const {
  Mat h = x.read(pass.arena);
  if (!norm || x.whole.data) return normed(norm, h, pass);
  norm.forward(h, h);
  return h;
}

template <class Block>
void DecoderLayer::add_block(Block block, Mat y, Pass& pass) const {
  if (residual_scale == 1) return block(y, Write::add);
  Arena::Scope scope(pass.arena);
  Mat out = pass.arena.matrix(y.rows, y.cols);
  block(out, Write::set);
  kernels::add_scaled(out, residual_scale, y);
}

ConstMat DecoderLayer::scaled(ConstMat d, Pass& pass) const {
  if (residual_scale == 1) return d;
  Mat out = pass.arena.matrix(d.rows, d.cols);
  kernels::copy(d, out);
  kernels::scale(out, residual_scale);
  return out;
}

void DecoderLayer::forward(ConstMat x, std::span<const std::int32_t> rows, Mat y, Saved& s, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  auto attend = [&](ConstMat h) {
    add_block([&](Mat out, Write mode) { attention.forward(h, rows, out, mode, s.attention, pass); }, y, pass);
  };
  auto feed = [&](ConstMat h) {
    add_block([&](Mat out, Write mode) { mlp.forward(h, out, mode, s.mlp, pass); }, y, pass);
  };
  if (parallel) {
    ConstMat h = normed(attention_norm, x, pass);
    kernels::copy(x, y);
    attend(h);
    feed(mlp_norm ? normed(mlp_norm, x, pass) : h);
    return;
  }
  // y starts as `mid`; the MLP's output is added.
  if (rows.empty()) kernels::copy(x, y);
  else kernels::gather_rows(x, rows, y);
  {
    Arena::Scope attention_scope(pass.arena);
    ConstMat h = normed(attention_norm, x, pass);
    if (attention_post_norm) {
      Mat out = s.attention_out.open(pass.arena);
      attention.forward(h, rows, out, Write::set, s.attention, pass);
      s.attention_out.close(out);
      kernels::add_scaled(normed(attention_post_norm, out, pass), residual_scale, y);
    } else {
      attend(h);
    }
  }
  s.mid.save(y);
  ConstMat h = normed(mlp_norm, y, pass);  // without a norm this is y; rows are read before they are added to
  if (mlp_post_norm) {
    Mat out = s.mlp_out.open(pass.arena);
    mlp.forward(h, out, Write::set, s.mlp, pass);
    s.mlp_out.close(out);
    kernels::add_scaled(normed(mlp_post_norm, out, pass), residual_scale, y);
  } else {
    feed(h);
  }
}

void DecoderLayer::backward(Mat d, const SavedActivation& x, std::span<const std::int32_t> rows, const Saved& s, Mat dx,
                            Pass& pass) const {
  if (parallel) {
    DML_CHECK(rows.empty());
    return backward_parallel(d, x, s, dx, pass);
  }
  Arena::Scope scope(pass.arena);
  auto through = [&](const Norm& norm,
                     const SavedActivation& in) -> ConstMat {  // the gradient before an optional post norm
    if (!norm) return scaled(d, pass);
    Mat dnorm = pass.arena.matrix(d.rows, d.cols);
    norm.backward(scaled(d, pass), in.read(pass.arena), dnorm, Write::set, pass.arena);
    return dnorm;
  };
  {
    Arena::Scope mlp_scope(pass.arena);
    ConstMat dm = through(mlp_post_norm, s.mlp_out);
    Mat dh = pass.arena.matrix(d.rows, d.cols);
    {
      Arena::Scope inner(pass.arena);
      mlp.backward(dm, recompute_norm(mlp_norm, s.mid, pass), s.mlp, dh, pass);
    }
    if (mlp_norm) mlp_norm.backward(dh, s.mid.read(pass.arena), d, Write::add, pass.arena);
    else kernels::add_scaled(dh, 1, d);
  }
  ConstMat da = through(attention_post_norm, s.attention_out);
  bool want_dh = !dx.empty() || attention_norm.trains();
  auto gradients = attention.backward(da, rows, s.attention, want_dh || attention.projections_train(), pass);
  if (!dx.empty()) {
    if (!rows.empty()) kernels::scatter_rows(d, rows, dx, Write::set);
    else if (dx.data != d.data) kernels::copy(d, dx);
  }
  if (!gradients.q.data) return;
  Mat dh = want_dh ? pass.arena.matrix(x.rows(), x.cols()) : Mat{};
  {
    Arena::Scope inner(pass.arena);
    attention.backward_projections(gradients, recompute_norm(attention_norm, x, pass), s.attention, dh, pass);
  }
  if (!want_dh) return;
  if (attention_norm) attention_norm.backward(dh, x.read(pass.arena), dx, Write::add, pass.arena);
  else kernels::add_scaled(dh, 1, dx);
}

void DecoderLayer::backward_parallel(Mat d, const SavedActivation& kept, const Saved& s, Mat dx, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  ConstMat x = kept.read(pass.arena), h = normed(attention_norm, x, pass);
  Mat dh = pass.arena.matrix(x.rows, x.cols), dm = pass.arena.matrix(x.rows, x.cols);
  const ConstMat dout = scaled(d, pass);
  mlp.backward(dout, mlp_norm ? normed(mlp_norm, x, pass) : h, s.mlp, dm, pass);
  attention.backward_projections(attention.backward(dout, {}, s.attention, true, pass), h, s.attention, dh, pass);
  if (!dx.empty() && dx.data != d.data) kernels::copy(d, dx);
  if (mlp_norm) mlp_norm.backward(dm, x, dx, Write::add, pass.arena);
  else kernels::add_scaled(dm, 1, dh);
  attention_norm.backward(dh, x, dx, Write::add, pass.arena);
}

void DecoderLayer::forward_cached(ConstMat x, std::span<const SequenceRows> sequences,
                                  const std::vector<std::int32_t>* ends, std::int64_t layer, Mat y, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  Mat attended = pass.arena.matrix(y.rows, y.cols);
  {
    Arena::Scope inner(pass.arena);
    attention.forward_cached(normed(attention_norm, x, pass), sequences, ends, layer, attended, pass);
  }
  if (y.rows == 0) return;
  Pass rest = ends ? pass.for_last_rows() : pass;
  if (attention_post_norm) attention_post_norm.forward(attended, attended);
  // The MLP reads x in a parallel layer, otherwise x + attention.
  if (!parallel) kernels::add_scaled(attended, residual_scale, y);
  ConstMat h = normed(mlp_norm ? mlp_norm : parallel ? attention_norm : mlp_norm, y, rest);
  Mat fed = pass.arena.matrix(y.rows, y.cols);
  const FeedForward::Saved s = mlp.plan(y.rows, {.mlp = false}, pass.arena);
  mlp.forward(h, fed, Write::set, s, rest);
  if (mlp_post_norm) mlp_post_norm.forward(fed, fed);
  if (parallel) kernels::add_scaled(attended, residual_scale, y);
  kernels::add_scaled(fed, residual_scale, y);
}

}  // namespace dml
