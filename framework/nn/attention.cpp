#include "nn/attention.h"

#include "core/error.h"
#include "kernels/elementwise.h"

namespace dml {
namespace {

// A norm over heads sees every head as a row.
Mat as_rows(Mat m, std::int64_t width) { return {m.data, m.size() / width, width}; }

}  // namespace

Attention::Saved Attention::plan(std::int64_t tokens, std::int64_t rows, Keeping keeping, Arena& saved) const {
  Saved s;
  s.q = Kept::plan(tokens, query_width(), keeping, saved);
  s.k = Kept::plan(tokens, key_width(), keeping, saved);
  s.v = Kept::plan(tokens, key_width(), keeping, saved);
  if (q_norm) s.q_plain = Kept::plan(tokens, query_width(), keeping, saved);
  if (k_norm) s.k_plain = Kept::plan(tokens, key_width(), keeping, saved);
  s.out = Kept::plan(tokens, query_width(), keeping, saved);
  s.lse = saved.matrix(tokens, shape.heads);
  s.q_proj = q.plan(tokens, keeping, saved);
  s.k_proj = k.plan(tokens, keeping, saved);
  s.v_proj = v.plan(tokens, keeping, saved);
  s.o_proj = o.plan(rows, keeping, saved);
  return s;
}

Attention::Projected Attention::project(ConstMat x, Saved& s, Pass& pass) const {
  Projected p{s.q.open(pass.arena), s.k.open(pass.arena), s.v.open(pass.arena), {}, {}};
  p.q_plain = q_norm ? s.q_plain.open(pass.arena) : p.q;
  p.k_plain = k_norm ? s.k_plain.open(pass.arena) : p.k;
  q.forward(x, p.q_plain, Write::set, s.q_proj, pass);
  k.forward(x, p.k_plain, Write::set, s.k_proj, pass);
  v.forward(x, p.v, Write::set, s.v_proj, pass);
  if (q_norm) {
    std::int64_t width = norm_whole ? query_width() : shape.head_dim;
    q_norm.forward(as_rows(p.q_plain, width), as_rows(p.q, width));
    s.q_plain.close(p.q_plain);
  }
  if (k_norm) {
    std::int64_t width = norm_whole ? key_width() : shape.head_dim;
    k_norm.forward(as_rows(p.k_plain, width), as_rows(p.k, width));
    s.k_plain.close(p.k_plain);
  }
  if (use_rope) {
    const kernels::RopeTable& table = local_rope ? pass.rope_local : pass.rope;
    kernels::rope(p.q, shape.head_dim, pass.batch.positions, table, false);
    kernels::rope(p.k, shape.head_dim, pass.batch.positions, table, false);
  }
  s.q.close(p.q);
  s.k.close(p.k);
  s.v.close(p.v);
  return p;
}

void Attention::forward(ConstMat x, std::span<const std::int32_t> rows, Mat y, Write mode, Saved& s, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  Projected p = project(x, s, pass);
  Mat out = s.out.open(pass.arena);
  kernels::attention(shape, p.q, p.k, p.v, pass.batch.starts, out, s.lse);
  s.out.close(out);
  if (!rows.empty()) {
    Mat picked = pass.arena.matrix(static_cast<std::int64_t>(rows.size()), query_width());
    kernels::gather_rows(out, rows, picked);
    out = picked;
  }
  o.forward(out, y, mode, s.o_proj, pass);
}

Attention::Gradients Attention::backward(ConstMat dy, std::span<const std::int32_t> rows, const Saved& s, bool wanted,
                                         Pass& pass) const {
  std::int64_t tokens = s.q.rows();
  Gradients d;
  if (wanted)
    d = {pass.arena.matrix(tokens, query_width()), pass.arena.matrix(tokens, key_width()),
         pass.arena.matrix(tokens, key_width())};
  Arena::Scope scope(pass.arena);
  Mat dout = pass.arena.matrix(tokens, query_width()), out = s.out.read(pass.arena);
  if (!rows.empty()) {
    Arena::Scope picking(pass.arena);
    auto count = static_cast<std::int64_t>(rows.size());
    Mat picked = pass.arena.matrix(count, query_width()), dpicked = pass.arena.matrix(count, query_width());
    kernels::gather_rows(out, rows, picked);
    o.backward(dy, picked, s.o_proj, dpicked, Write::set, pass);
    kernels::scatter_rows(dpicked, rows, dout, Write::set);
  } else {
    o.backward(dy, out, s.o_proj, dout, Write::set, pass);
  }
  if (!wanted) return d;
  kernels::attention_backward(shape, dout, s.q.read(pass.arena), s.k.read(pass.arena), s.v.read(pass.arena), out, s.lse,
                              pass.batch.starts, d.q, d.k, d.v, pass.arena);
  return d;
}

void Attention::backward_projections(const Gradients& d, ConstMat x, const Saved& s, Mat dx, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  if (use_rope) {
    const kernels::RopeTable& table = local_rope ? pass.rope_local : pass.rope;
    kernels::rope(d.q, shape.head_dim, pass.batch.positions, table, true);
    kernels::rope(d.k, shape.head_dim, pass.batch.positions, table, true);
  }
  if (q_norm) {
    std::int64_t width = norm_whole ? query_width() : shape.head_dim;
    Mat plain = s.q_plain.read(pass.arena);
    q_norm.backward(as_rows(d.q, width), as_rows(plain, width), as_rows(d.q, width), Write::set, pass.arena);
  }
  if (k_norm) {
    std::int64_t width = norm_whole ? key_width() : shape.head_dim;
    Mat plain = s.k_plain.read(pass.arena);
    k_norm.backward(as_rows(d.k, width), as_rows(plain, width), as_rows(d.k, width), Write::set, pass.arena);
  }
  v.backward(d.v, x, s.v_proj, dx, Write::set, pass);
  k.backward(d.k, x, s.k_proj, dx, Write::add, pass);
  q.backward(d.q, x, s.q_proj, dx, Write::add, pass);
}

void Attention::forward_cached(ConstMat x, std::span<const SequenceRows> sequences, std::int64_t layer, Mat y,
                               Write mode, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  Saved s = plan(x.rows, x.rows, {}, pass.arena);
  Projected p = project(x, s, pass);
  Mat out = s.out.whole;
  std::vector<kernels::CachedQuery> queries;
  for (const SequenceRows& rows : sequences) {
    std::int64_t before = rows.cache->length(), after = before + rows.count;
    DML_CHECK(after <= rows.cache->capacity());
    kernels::CachedRows keys = rows.cache->keys(layer, after), values = rows.cache->values(layer, after);
    Mat new_k = p.k.slice(rows.first, rows.count), new_v = p.v.slice(rows.first, rows.count);
    kernels::store_rows(new_k, keys, before);
    kernels::store_rows(new_v, values, before);
    if (before == 0 && rows.count > 1) {
      if (keys.storage != kernels::Storage::f32) {  // the new tokens see what later ones will see
        kernels::load_rows(keys, 0, new_k);
        kernels::load_rows(values, 0, new_v);
      }
      std::int32_t starts[] = {0, static_cast<std::int32_t>(rows.count)};
      kernels::attention(shape, p.q.slice(rows.first, rows.count), new_k, new_v, starts,
                         out.slice(rows.first, rows.count), s.lse.slice(rows.first, rows.count));
      continue;
    }
    for (std::int64_t i = 0; i < rows.count; ++i)
      queries.push_back({p.q.row(rows.first + i), keys.head_of(before + i + 1), values.head_of(before + i + 1),
                         out.row(rows.first + i)});
  }
  if (!queries.empty()) kernels::attention_decode(shape, queries, pass.arena);
  o.forward(out, y, mode, s.o_proj, pass);
}

}  // namespace dml
