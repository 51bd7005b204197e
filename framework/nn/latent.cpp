#include "nn/latent.h"

#include <algorithm>

#include "core/parallel.h"
#include "kernels/elementwise.h"
#include "nn/projected_heads.h"

namespace dml {
namespace {

constexpr std::int64_t kTaskRows = 64;  // rows of a task

template <class F>
void each_row(std::int64_t rows, F f) {
  parallel_ranges(rows, kTaskRows, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) f(t);
  });
}

}  // namespace

void widen_heads(ConstMat from, std::int64_t heads, Mat to) {
  const std::int64_t wide = to.cols / heads, narrow = from.cols / heads;
  each_row(from.rows, [&](std::int64_t t) {
    for (std::int64_t h = 0; h < heads; ++h) {
      float* head = to.row(t) + h * wide;
      std::copy_n(from.row(t) + h * narrow, narrow, head);
      std::fill(head + narrow, head + wide, 0.f);
    }
  });
}

Latent::Saved Latent::plan(std::int64_t tokens, std::int64_t queries, SavePolicy policy, Arena& saved) const {
  Saved s;
  if (q_a) s.q_low = SavedActivation::plan(queries, q_a.out(), policy.norm_inputs, saved);
  s.kv_low = SavedActivation::plan(tokens, kv_a.out() - rope, policy.norm_inputs, saved);
  if (q_a) s.q_a = q_a.plan(queries, policy, saved);
  s.q_b = q_b.plan(queries, policy, saved);
  s.kv_a = kv_a.plan(tokens, policy, saved);
  s.kv_b = kv_b.plan(tokens, policy, saved);
  return s;
}

void Latent::forward(ConstMat x, ConstMat queries, const Saved& s, Mat q, Mat k, Mat v, Pass& pass,
                     Pass& query_pass) const {
  Arena::Scope scope(pass.arena);
  const std::int64_t width = head_dim();
  Linear::Saved low_q = s.q_a, high_q = s.q_b, low_kv = s.kv_a, high_kv = s.kv_b;
  Mat all_q = pass.arena.matrix(queries.rows, q_b.out());
  if (q_a) {
    Mat low = s.q_low.open(pass.arena), normed = pass.arena.matrix(queries.rows, q_a.out());
    q_a.forward(queries, low, Write::set, low_q, query_pass);
    q_norm.forward(low, normed);
    s.q_low.close(low);
    q_b.forward(normed, all_q, Write::set, high_q, query_pass);
  } else {
    q_b.forward(queries, all_q, Write::set, high_q, query_pass);
  }
  each_row(queries.rows, [&](std::int64_t t) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const float* from = all_q.row(t) + h * (nope + rope);
      float* to = q.row(t) + h * width;
      for (std::int64_t i = 0; i < rope; ++i) to[i] = from[nope + rope_row(i)];
      std::copy_n(from, nope, to + rope);
      std::fill(to + rope + nope, to + width, 0.f);
    }
  });

  Mat both = pass.arena.matrix(x.rows, kv_a.out()), low = s.kv_low.open(pass.arena),
      normed = pass.arena.matrix(x.rows, low.cols), high = pass.arena.matrix(x.rows, kv_b.out());
  kv_a.forward(x, both, Write::set, low_kv, pass);
  copy_columns(both, {1, both.cols, 0, low.cols}, low);
  kv_norm.forward(low, normed);
  s.kv_low.close(low);
  kv_b.forward(normed, high, Write::set, high_kv, pass);
  each_row(x.rows, [&](std::int64_t t) {
    const float* shared = both.row(t) + low.cols;
    for (std::int64_t h = 0; h < heads; ++h) {
      const float* from = high.row(t) + h * (nope + value);
      float *key = k.row(t) + h * width, *val = v.row(t) + h * width;
      for (std::int64_t i = 0; i < rope; ++i) key[i] = shared[rope_row(i)];
      std::copy_n(from, nope, key + rope);
      std::fill(key + rope + nope, key + width, 0.f);
      std::copy_n(from + nope, value, val);
      std::fill(val + value, val + width, 0.f);
    }
  });
}

void Latent::backward(ConstMat dq, ConstMat dk, ConstMat dv, ConstMat x, const Saved& s, Mat dx, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  const std::int64_t width = head_dim(), rows = x.rows;
  Mat dhigh = pass.arena.matrix(rows, kv_b.out()), dboth = pass.arena.matrix(rows, kv_a.out());
  const std::int64_t low_width = dboth.cols - rope;
  each_row(rows, [&](std::int64_t t) {
    float* shared = dboth.row(t) + low_width;
    std::fill_n(shared, rope, 0.f);
    for (std::int64_t h = 0; h < heads; ++h) {
      float* to = dhigh.row(t) + h * (nope + value);
      const float *key = dk.row(t) + h * width, *val = dv.row(t) + h * width;
      for (std::int64_t i = 0; i < rope; ++i) shared[rope_row(i)] += key[i];
      std::copy_n(key + rope, nope, to);
      std::copy_n(val, value, to + nope);
    }
  });
  {
    Arena::Scope inner(pass.arena);
    Mat low = s.kv_low.read(pass.arena), normed = pass.arena.matrix(rows, low_width),
        dnormed = pass.arena.matrix(rows, low_width), dlow = pass.arena.matrix(rows, low_width);
    kv_norm.forward(low, normed);
    kv_b.backward(dhigh, normed, s.kv_b, dnormed, Write::set, pass);
    kv_norm.backward(dnormed, low, dlow, Write::set, pass.arena);
    put_columns(dlow, {1, dboth.cols, 0, low_width}, dboth);
  }
  kv_a.backward(dboth, x, s.kv_a, dx, Write::set, pass);

  Mat dall = pass.arena.matrix(rows, q_b.out());
  each_row(rows, [&](std::int64_t t) {
    for (std::int64_t h = 0; h < heads; ++h) {
      float* to = dall.row(t) + h * (nope + rope);
      const float* from = dq.row(t) + h * width;
      for (std::int64_t i = 0; i < rope; ++i) to[nope + rope_row(i)] = from[i];
      std::copy_n(from + rope, nope, to);
    }
  });
  if (!q_a) return q_b.backward(dall, x, s.q_b, dx, Write::add, pass);
  Mat low = s.q_low.read(pass.arena), normed = pass.arena.matrix(rows, low.cols),
      dnormed = pass.arena.matrix(rows, low.cols), dlow = pass.arena.matrix(rows, low.cols);
  q_norm.forward(low, normed);
  q_b.backward(dall, normed, s.q_b, dnormed, Write::set, pass);
  q_norm.backward(dnormed, low, dlow, Write::set, pass.arena);
  q_a.backward(dlow, x, s.q_a, dx, Write::add, pass);
}

}  // namespace dml
