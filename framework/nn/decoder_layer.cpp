#include "nn/decoder_layer.h"

#include "core/error.h"
#include "kernels/elementwise.h"

namespace dml {

DecoderLayer::Saved DecoderLayer::plan(std::int64_t tokens, std::int64_t rows, bool keep_mlp, Arena& saved) const {
  Saved s;
  std::int64_t width = attention.o.out();
  if (!parallel) s.mid = saved.matrix(rows, width);
  if (attention_post_norm) s.attention_out = saved.matrix(rows, width);
  if (mlp_post_norm) s.mlp_out = saved.matrix(rows, width);
  s.attention = attention.plan(tokens, rows, saved);
  s.mlp = mlp.plan(rows, keep_mlp, saved);
  return s;
}

ConstMat DecoderLayer::normed(const Norm& norm, ConstMat x, Pass& pass) const {
  if (!norm) return x;
  Mat h = pass.arena.matrix(x.rows, x.cols);
  norm.forward(x, h);
  return h;
}

void DecoderLayer::forward(ConstMat x, std::span<const std::int32_t> rows, Mat y, Saved& s, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  ConstMat h = normed(attention_norm, x, pass);
  if (parallel) {
    kernels::copy(x, y);
    attention.forward(h, rows, y, Write::add, s.attention, pass);
    mlp.forward(mlp_norm ? normed(mlp_norm, x, pass) : h, y, Write::add, s.mlp, pass);
    return;
  }
  if (rows.empty())
    kernels::copy(x, s.mid);
  else
    kernels::gather_rows(x, rows, s.mid);
  if (attention_post_norm) {
    attention.forward(h, rows, s.attention_out, Write::set, s.attention, pass);
    kernels::add_scaled(normed(attention_post_norm, s.attention_out, pass), 1, s.mid);
  } else {
    attention.forward(h, rows, s.mid, Write::add, s.attention, pass);
  }
  kernels::copy(s.mid, y);
  h = normed(mlp_norm, s.mid, pass);
  if (mlp_post_norm) {
    mlp.forward(h, s.mlp_out, Write::set, s.mlp, pass);
    kernels::add_scaled(normed(mlp_post_norm, s.mlp_out, pass), 1, y);
  } else {
    mlp.forward(h, y, Write::add, s.mlp, pass);
  }
}

void DecoderLayer::backward(Mat d, ConstMat x, std::span<const std::int32_t> rows, Saved& s, Mat dx, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  if (parallel) {
    DML_CHECK(rows.empty());
    ConstMat h = normed(attention_norm, x, pass);
    Mat dh = pass.arena.matrix(x.rows, x.cols), dm = pass.arena.matrix(x.rows, x.cols);
    mlp.backward(d, mlp_norm ? normed(mlp_norm, x, pass) : h, s.mlp, dm, pass);
    attention.backward(d, h, rows, s.attention, dh, pass);
    if (!dx.empty() && dx.data != d.data) kernels::copy(d, dx);
    if (mlp_norm)
      mlp_norm.backward(dm, x, dx, Write::add, pass.arena);
    else
      kernels::add_scaled(dm, 1, dh);
    attention_norm.backward(dh, x, dx, Write::add, pass.arena);
    return;
  }
  {
    Arena::Scope mlp_scope(pass.arena);
    ConstMat dm = d;
    if (mlp_post_norm) {
      Mat through = pass.arena.matrix(d.rows, d.cols);
      mlp_post_norm.backward(d, s.mlp_out, through, Write::set, pass.arena);
      dm = through;
    }
    if (mlp_norm) {
      Mat dh = pass.arena.matrix(d.rows, d.cols);
      mlp.backward(dm, normed(mlp_norm, s.mid, pass), s.mlp, dh, pass);
      mlp_norm.backward(dh, s.mid, d, Write::add, pass.arena);
    } else {
      Mat dh = pass.arena.matrix(d.rows, d.cols);
      mlp.backward(dm, s.mid, s.mlp, dh, pass);
      kernels::add_scaled(dh, 1, d);
    }
  }
  ConstMat da = d;
  if (attention_post_norm) {
    Mat through = pass.arena.matrix(d.rows, d.cols);
    attention_post_norm.backward(d, s.attention_out, through, Write::set, pass.arena);
    da = through;
  }
  bool want_dh = !dx.empty() || attention_norm.trains();
  Mat dh = want_dh ? pass.arena.matrix(x.rows, x.cols) : Mat{};
  attention.backward(da, normed(attention_norm, x, pass), rows, s.attention, dh, pass);
  if (!dx.empty()) {
    if (!rows.empty())
      kernels::scatter_rows(d, rows, dx, Write::set);
    else if (dx.data != d.data)
      kernels::copy(d, dx);
  }
  if (!want_dh) return;
  if (attention_norm)
    attention_norm.backward(dh, x, dx, Write::add, pass.arena);
  else
    kernels::add_scaled(dh, 1, dx);
}

void DecoderLayer::forward_cached(Mat x, std::span<const SequenceRows> sequences, std::int64_t layer, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  Mat attended = pass.arena.matrix(x.rows, x.cols);
  attention.forward_cached(normed(attention_norm, x, pass), sequences, layer, attended, Write::set, pass);
  if (attention_post_norm) attention_post_norm.forward(attended, attended);
  // A parallel layer's MLP reads x as it was; the others read x + attention.
  if (!parallel) kernels::add_scaled(attended, 1, x);
  ConstMat h = normed(mlp_norm ? mlp_norm : parallel ? attention_norm : mlp_norm, x, pass);
  Mat fed = pass.arena.matrix(x.rows, x.cols);
  Mlp::Saved s = mlp.plan(x.rows, false, pass.arena);
  mlp.forward(h, fed, Write::set, s, pass);
  if (mlp_post_norm) mlp_post_norm.forward(fed, fed);
  if (parallel) kernels::add_scaled(attended, 1, x);
  kernels::add_scaled(fed, 1, x);
}

}  // namespace dml
