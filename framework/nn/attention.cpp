#include "nn/attention.h"

#include "core/error.h"
#include "kernels/elementwise.h"

namespace dml {
namespace {

// A norm over heads sees every head as a row.
Mat as_rows(Mat m, std::int64_t width) { return {m.data, m.size() / width, width}; }

}  // namespace

Attention::Saved Attention::plan(std::int64_t tokens, std::int64_t queries, std::int64_t rows, Keeping keeping,
                                 Arena& saved) const {
  Saved s;
  s.q = Kept::plan(queries, query_width(), keeping, saved);
  s.k = Kept::plan(tokens, key_width(), keeping, saved);
  s.v = Kept::plan(tokens, key_width(), keeping, saved);
  if (q_norm) s.q_plain = Kept::plan(queries, query_width(), keeping, saved);
  if (k_norm) s.k_plain = Kept::plan(tokens, key_width(), keeping, saved);
  s.out = Kept::plan(queries, query_width(), keeping, saved);
  s.lse = saved.matrix(queries, shape.heads);
  s.q_proj = q.plan(queries, keeping, saved);
  s.k_proj = k.plan(tokens, keeping, saved);
  s.v_proj = v.plan(tokens, keeping, saved);
  s.o_proj = o.plan(rows, keeping, saved);
  return s;
}

// Queries of the rows listed (of all, if none are), keys and values of all.
Attention::Projected Attention::project(ConstMat x, std::span<const std::int32_t> queries, Saved& s, Pass& pass) const {
  const kernels::RopeTable& table = local_rope ? pass.rope_local : pass.rope;
  Projected p{s.q.open(pass.arena), s.k.open(pass.arena), s.v.open(pass.arena)};
  auto project_heads = [&](const Linear& to, const Norm& norm, ConstMat from, std::span<const std::int32_t> positions,
                           Kept& kept_plain, Linear::Saved& saved, Mat heads) {
    Mat plain = norm ? kept_plain.open(pass.arena) : heads;
    to.forward(from, plain, Write::set, saved, pass);
    if (norm) {
      std::int64_t width = norm_whole ? heads.cols : shape.head_dim;
      norm.forward(as_rows(plain, width), as_rows(heads, width));
      kept_plain.close(plain);
    }
    if (use_rope) kernels::rope(heads, shape.head_dim, positions, table, false);
  };
  if (queries.empty()) {
    project_heads(q, q_norm, x, pass.batch.positions, s.q_plain, s.q_proj, p.q);
  } else {
    Arena::Scope scope(pass.arena);
    Mat picked = pass.arena.matrix(p.q.rows, x.cols);
    kernels::gather_rows(x, queries, picked);
    std::vector<std::int32_t> positions;
    for (std::int32_t row : queries) positions.push_back(pass.batch.positions[static_cast<std::size_t>(row)]);
    project_heads(q, q_norm, picked, positions, s.q_plain, s.q_proj, p.q);
  }
  project_heads(k, k_norm, x, pass.batch.positions, s.k_plain, s.k_proj, p.k);
  v.forward(x, p.v, Write::set, s.v_proj, pass);
  s.q.close(p.q);
  s.k.close(p.k);
  s.v.close(p.v);
  return p;
}

void Attention::forward(ConstMat x, std::span<const std::int32_t> rows, Mat y, Write mode, Saved& s, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  Projected p = project(x, {}, s, pass);
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

void Attention::forward_cached(ConstMat x, std::span<const SequenceRows> sequences, std::span<const std::int32_t> ends,
                               std::int64_t layer, Mat y, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  Saved s = plan(x.rows, y.rows, y.rows, {}, pass.arena);
  Projected p = project(x, ends, s, pass);
  Mat out = s.out.whole;
  std::vector<kernels::CachedQuery> queries;
  for (const SequenceRows& rows : sequences) {
    std::int64_t before = rows.cache->length(), after = before + rows.count;
    DML_CHECK(after <= rows.cache->capacity());
    kernels::CachedRows keys = rows.cache->keys(layer, after), values = rows.cache->values(layer, after);
    Mat new_k = p.k.slice(rows.first, rows.count), new_v = p.v.slice(rows.first, rows.count);
    kernels::store_rows(new_k, keys, before);
    kernels::store_rows(new_v, values, before);
    if (!ends.empty()) {
      const std::int64_t i = std::ssize(queries);
      queries.push_back({p.q.row(i), keys, values, out.row(i)});
      continue;
    }
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
  o.forward(out, y, Write::set, s.o_proj, pass);
}

}  // namespace dml
