#include "nn/attention.h"

#include "core/error.h"
#include "kernels/elementwise.h"

namespace dml {
namespace {

// A norm over heads sees every head as a row.
Mat as_rows(Mat m, std::int64_t width) { return {m.data, m.size() / width, width}; }

}  // namespace

Attention::Saved Attention::plan(std::int64_t tokens, std::int64_t rows, Arena& saved) const {
  Saved s;
  s.q = saved.matrix(tokens, query_width());
  s.k = saved.matrix(tokens, key_width());
  s.v = saved.matrix(tokens, key_width());
  if (q_norm) s.q_plain = saved.matrix(tokens, query_width());
  if (k_norm) s.k_plain = saved.matrix(tokens, key_width());
  s.out = saved.matrix(tokens, query_width());
  s.lse = saved.matrix(tokens, shape.heads);
  if (rows != tokens) s.picked = saved.matrix(rows, query_width());
  s.q_proj = q.plan(tokens, saved);
  s.k_proj = k.plan(tokens, saved);
  s.v_proj = v.plan(tokens, saved);
  s.o_proj = o.plan(rows, saved);
  return s;
}

void Attention::project(ConstMat x, Saved& s, Pass& pass) const {
  Mat q_plain = q_norm ? s.q_plain : s.q, k_plain = k_norm ? s.k_plain : s.k;
  q.forward(x, q_plain, Write::set, s.q_proj, pass);
  k.forward(x, k_plain, Write::set, s.k_proj, pass);
  v.forward(x, s.v, Write::set, s.v_proj, pass);
  if (q_norm) {
    std::int64_t width = norm_whole ? query_width() : shape.head_dim;
    q_norm.forward(as_rows(q_plain, width), as_rows(s.q, width));
  }
  if (k_norm) {
    std::int64_t width = norm_whole ? key_width() : shape.head_dim;
    k_norm.forward(as_rows(k_plain, width), as_rows(s.k, width));
  }
  if (use_rope) {
    const kernels::RopeTable& table = local_rope ? pass.rope_local : pass.rope;
    kernels::rope(s.q, shape.head_dim, pass.batch.positions, table, false);
    kernels::rope(s.k, shape.head_dim, pass.batch.positions, table, false);
  }
}

void Attention::forward(ConstMat x, std::span<const std::int32_t> rows, Mat y, Write mode, Saved& s,
                        Pass& pass) const {
  project(x, s, pass);
  kernels::attention(shape, s.q, s.k, s.v, pass.batch.starts, s.out, s.lse);
  if (s.picked.data) {
    kernels::gather_rows(s.out, rows, s.picked);
    o.forward(s.picked, y, mode, s.o_proj, pass);
  } else {
    o.forward(s.out, y, mode, s.o_proj, pass);
  }
}

void Attention::backward(ConstMat dy, ConstMat x, std::span<const std::int32_t> rows, Saved& s, Mat dx, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  std::int64_t tokens = s.q.rows;
  Mat dout = pass.arena.matrix(tokens, query_width());
  if (s.picked.data) {
    Mat dpicked = pass.arena.matrix(s.picked.rows, query_width());
    o.backward(dy, s.picked, s.o_proj, dpicked, Write::set, pass);
    kernels::scatter_rows(dpicked, rows, dout, Write::set);
  } else {
    o.backward(dy, s.out, s.o_proj, dout, Write::set, pass);
  }
  if (dx.empty() && !q.trains() && !k.trains() && !v.trains() && !q_norm.trains() && !k_norm.trains()) return;

  Mat dq = pass.arena.matrix(tokens, query_width());
  Mat dk = pass.arena.matrix(tokens, key_width()), dv = pass.arena.matrix(tokens, key_width());
  kernels::attention_backward(shape, dout, s.q, s.k, s.v, s.out, s.lse, pass.batch.starts, dq, dk, dv, pass.arena);
  if (use_rope) {
    const kernels::RopeTable& table = local_rope ? pass.rope_local : pass.rope;
    kernels::rope(dq, shape.head_dim, pass.batch.positions, table, true);
    kernels::rope(dk, shape.head_dim, pass.batch.positions, table, true);
  }
  if (q_norm) {
    std::int64_t width = norm_whole ? query_width() : shape.head_dim;
    q_norm.backward(as_rows(dq, width), as_rows(s.q_plain, width), as_rows(dq, width), Write::set, pass.arena);
  }
  if (k_norm) {
    std::int64_t width = norm_whole ? key_width() : shape.head_dim;
    k_norm.backward(as_rows(dk, width), as_rows(s.k_plain, width), as_rows(dk, width), Write::set, pass.arena);
  }
  v.backward(dv, x, s.v_proj, dx, Write::set, pass);
  k.backward(dk, x, s.k_proj, dx, Write::add, pass);
  q.backward(dq, x, s.q_proj, dx, Write::add, pass);
}

void Attention::forward_cached(ConstMat x, std::span<const SequenceRows> sequences, std::int64_t layer, Mat y,
                               Write mode, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  Saved s = plan(x.rows, x.rows, pass.arena);
  project(x, s, pass);
  std::vector<kernels::CachedQuery> queries;
  for (const SequenceRows& rows : sequences) {
    std::int64_t before = rows.cache->length(), after = before + rows.count;
    DML_CHECK(after <= rows.cache->capacity());
    kernels::CachedRows keys = rows.cache->keys(layer, after), values = rows.cache->values(layer, after);
    Mat new_k = s.k.slice(rows.first, rows.count), new_v = s.v.slice(rows.first, rows.count);
    kernels::store_rows(new_k, keys, before);
    kernels::store_rows(new_v, values, before);
    if (before == 0 && rows.count > 1) {
      if (keys.storage != kernels::Storage::f32) {  // the new tokens see what later ones will see
        kernels::load_rows(keys, 0, new_k);
        kernels::load_rows(values, 0, new_v);
      }
      std::int32_t starts[] = {0, static_cast<std::int32_t>(rows.count)};
      kernels::attention(shape, s.q.slice(rows.first, rows.count), new_k, new_v, starts, s.out.slice(rows.first, rows.count),
                         s.lse.slice(rows.first, rows.count));
      continue;
    }
    for (std::int64_t i = 0; i < rows.count; ++i)
      queries.push_back({s.q.row(rows.first + i), keys.head_of(before + i + 1), values.head_of(before + i + 1), s.out.row(rows.first + i)});
  }
  if (!queries.empty()) kernels::attention_decode(shape, queries, pass.arena);
  o.forward(s.out, y, mode, s.o_proj, pass);
}

}  // namespace dml
