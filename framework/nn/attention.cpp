#include "nn/attention.h"

#include <array>

#include "core/error.h"
#include "kernels/elementwise.h"
#include "nn/projected_heads.h"

namespace dml {
namespace {

// Expands a matrix of computed rows in scratch to all rows that attention reads.
Mat seen(ConstMat m, Pass& pass) {
  Mat all = pass.arena.matrix(std::ssize(pass.shared.rows), m.cols);
  kernels::gather_rows(m, pass.shared.rows, all);
  return all;
}

}  // namespace

Attention::Saved Attention::plan(std::int64_t tokens, std::int64_t queries, std::int64_t rows, SavePolicy policy,
                                 Arena& saved) const {
  Saved s;
  s.q = SavedActivation::plan(queries, query_width(), policy.intermediates, saved);
  s.k = SavedActivation::plan(tokens, key_width(), policy.intermediates, saved);
  s.v = SavedActivation::plan(tokens, key_width(), policy.intermediates, saved);
  if (clip > 0 || q_heads()) s.q_plain = SavedActivation::plan(queries, query_width(), policy.norm_inputs, saved);
  if (clip > 0 || k_heads()) s.k_plain = SavedActivation::plan(tokens, key_width(), policy.norm_inputs, saved);
  if (clip > 0) s.v_plain = SavedActivation::plan(tokens, key_width(), policy.norm_inputs, saved);
  s.out = SavedActivation::plan(queries, query_width(), policy.intermediates, saved);
  s.lse = saved.matrix(queries, shape.heads);
  s.q_proj = q.plan(queries, policy, saved);
  s.k_proj = k.plan(tokens, policy, saved);
  s.v_proj = v.plan(tokens, policy, saved);
  s.qkv_proj = qkv.plan(tokens, policy, saved);
  s.o_proj = o.plan(rows, policy, saved);
  if (latent) s.latent = latent.plan(tokens, queries, policy, saved);
  return s;
}

kernels::AttentionShape Attention::shape_now() const {
  kernels::AttentionShape now = shape;
  now.sinks = sinks ? sinks.value().data : frozen_sinks;
  now.slopes = slopes.empty() ? nullptr : slopes.data();
  return now;
}

Mat Attention::narrowed(Mat out, Pass& pass) const {
  if (o.in() == out.cols) return out;
  Mat read = pass.arena.matrix(out.rows, o.in());
  copy_columns(out, {shape.heads, shape.head_dim, 0, o.in() / shape.heads}, read);
  return read;
}

Mat Attention::widened(Mat dout, Pass& pass) const {
  if (dout.cols == query_width()) return dout;
  Mat wide = pass.arena.matrix(dout.rows, query_width());
  widen_heads(dout, shape.heads, wide);
  return wide;
}

void Attention::rotate(Mat heads, std::span<const std::int32_t> rope_rows, bool backward, const Pass& pass) const {
  if (!use_rope) return;
  kernels::rope(heads, shape.head_dim, {(local_rope ? pass.rope_local : pass.rope).table, rope_rows}, backward);
}

// Computes the projections: keys and values of all rows, queries of the rows listed (null: of all). A separate
// projection of queries reads only the listed rows.
void Attention::project_plain(ConstMat x, const std::vector<std::int32_t>* queries, const Projected& to, Saved& s,
                              Pass& pass) const {
  Arena::Scope scope(pass.arena);
  if (qkv) {
    Mat fused = pass.arena.matrix(x.rows, qkv.out());
    qkv.forward(x, fused, Write::set, s.qkv_proj, pass);
    const FusedColumns columns{shape};
    copy_columns(fused, columns.k(), to.k);
    copy_columns(fused, columns.v(), to.v);
    if (queries) {
      Mat picked = pass.arena.matrix(to.q.rows, fused.cols);
      if (!queries->empty()) kernels::gather_rows(fused, *queries, picked);
      fused = picked;
    }
    return copy_columns(fused, columns.q(), to.q);
  }
  const FusedLinear keys{&k, to.k, &s.k_proj}, values{&v, to.v, &s.v_proj};
  if (!queries && !latent) return forward_fused(std::array{FusedLinear{&q, to.q, &s.q_proj}, keys, values}, x, pass);
  ConstMat query_rows = x;
  if (queries) {
    Mat picked = pass.arena.matrix(to.q.rows, x.cols);
    if (!queries->empty()) kernels::gather_rows(x, *queries, picked);
    query_rows = picked;
  }
  Pass how = queries ? pass.for_last_rows() : pass;
  if (latent) return latent.forward(x, query_rows, s.latent, to.q, to.k, to.v, pass, how);
  q.forward(query_rows, to.q, Write::set, s.q_proj, how);
  forward_fused(std::array{keys, values}, x, pass);
}

// The projections after norms, clip and rope.
Attention::Projected Attention::project(ConstMat x, const std::vector<std::int32_t>* queries, Saved& s,
                                        Pass& pass) const {
  Projected p{s.q.open(pass.arena), s.k.open(pass.arena), s.v.open(pass.arena)};
  Arena::Scope scope(pass.arena);
  const Projected plain{s.q_plain ? s.q_plain.open(pass.arena) : p.q, s.k_plain ? s.k_plain.open(pass.arena) : p.k,
                        s.v_plain ? s.v_plain.open(pass.arena) : p.v};
  project_plain(x, queries, plain, s, pass);
  const std::span<const std::int32_t> all = (local_rope ? pass.rope_local : pass.rope).rows;
  std::vector<std::int32_t> some(queries ? queries->size() : 0);
  for (std::size_t i = 0; i < some.size() && use_rope && !dry_run(); ++i)
    some[i] = all[static_cast<std::size_t>((*queries)[i])];
  auto finish = [&](Mat from, const HeadNorms& norms, std::span<const std::int32_t> rope_rows,
                    const SavedActivation& kept, Mat heads) {
    if (norms && norm_after_rope) rotate(from, rope_rows, false, pass);
    if (norms) norms.forward(from, heads, pass.arena);
    if (clip > 0) kernels::clip(norms ? heads : from, clip, heads);
    if (kept) kept.close(from);
    if (!norms || !norm_after_rope) rotate(heads, rope_rows, false, pass);
  };
  finish(plain.q, q_heads(), queries ? std::span<const std::int32_t>(some) : all, s.q_plain, p.q);
  finish(plain.k, k_heads(), all, s.k_plain, p.k);
  if (clip > 0) kernels::clip(plain.v, clip, p.v), s.v_plain.close(plain.v);
  s.q.close(p.q);
  s.k.close(p.k);
  s.v.close(p.v);
  return p;
}

void Attention::attend(const Projected& p, Mat out, Mat lse, Pass& pass) const {
  const SharedPrefixes& shared = pass.shared;
  if (!shared) return kernels::attention(shape_now(), p.q, p.k, p.v, pass.batch.starts, out, lse);
  Arena::Scope scope(pass.arena);
  const Mat seen_out = pass.arena.matrix(std::ssize(shared.rows), out.cols),
            seen_lse = pass.arena.matrix(std::ssize(shared.rows), lse.cols);
  kernels::attention(shape_now(), seen(p.q, pass), seen(p.k, pass), seen(p.v, pass), shared.starts, seen_out, seen_lse);
  kernels::gather_rows(seen_out, shared.firsts, out);
  kernels::gather_rows(seen_lse, shared.firsts, lse);
}

// Only the first copy of a shared row has an output that is used; the gradients of a shared row are the sums over its
// copies.
void Attention::attend_backward(ConstMat dout, const Projected& p, ConstMat out, ConstMat lse, const Gradients& d,
                                Pass& pass) const {
  const SharedPrefixes& shared = pass.shared;
  if (!shared)
    return kernels::attention_backward(shape_now(), dout, p.q, p.k, p.v, out, lse, pass.batch.starts, d.q, d.k, d.v,
                                       pass.arena);
  Arena::Scope scope(pass.arena);
  const std::int64_t rows = std::ssize(shared.rows);
  const Mat seen_dout = pass.arena.matrix(rows, dout.cols);
  kernels::scatter_rows(dout, shared.firsts, seen_dout, Write::set);
  const Gradients all{pass.arena.matrix(rows, d.q.cols), pass.arena.matrix(rows, d.k.cols),
                      pass.arena.matrix(rows, d.v.cols)};
  kernels::attention_backward(shape_now(), seen_dout, seen(p.q, pass), seen(p.k, pass), seen(p.v, pass),
                              seen(out, pass), seen(lse, pass), shared.starts, all.q, all.k, all.v, pass.arena);
  kernels::sum_rows(all.q, shared.rows, d.q);
  kernels::sum_rows(all.k, shared.rows, d.k);
  kernels::sum_rows(all.v, shared.rows, d.v);
}

void Attention::forward(ConstMat x, std::span<const std::int32_t> rows, Mat y, Write mode, Saved& s, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  Projected p = project(x, nullptr, s, pass);
  Mat out = s.out.open(pass.arena);
  attend(p, out, s.lse, pass);
  s.out.close(out);
  out = narrowed(out, pass);
  if (!rows.empty()) {
    Mat picked = pass.arena.matrix(static_cast<std::int64_t>(rows.size()), out.cols);
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
  Mat out = s.out.read(pass.arena), read = narrowed(out, pass), dout = pass.arena.matrix(tokens, read.cols);
  if (!rows.empty()) {
    Arena::Scope picking(pass.arena);
    auto count = static_cast<std::int64_t>(rows.size());
    Mat picked = pass.arena.matrix(count, read.cols), dpicked = pass.arena.matrix(count, read.cols);
    kernels::gather_rows(read, rows, picked);
    o.backward(dy, picked, s.o_proj, dpicked, Write::set, pass);
    kernels::scatter_rows(dpicked, rows, dout, Write::set);
  } else {
    o.backward(dy, read, s.o_proj, dout, Write::set, pass);
  }
  dout = widened(dout, pass);
  if (Mat dsinks = sinks ? sinks.grad() : Mat{}; !dsinks.empty())
    kernels::attention_sinks_backward(shape_now(), dout, out, s.lse, dsinks.data, pass.arena);
  if (!wanted) return d;
  attend_backward(dout, {s.q.read(pass.arena), s.k.read(pass.arena), s.v.read(pass.arena)}, out, s.lse, d, pass);
  return d;
}

// Recomputes the outputs of the norms.
void Attention::clip_backward(const SavedActivation& plain, const HeadNorms& norms, Mat d, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  Mat before = plain.read(pass.arena);
  if (norms) {
    const Mat normed = pass.arena.matrix(before.rows, before.cols);
    norms.forward(before, normed, pass.arena);
    before = normed;
  }
  kernels::clip_backward(before, clip, d);
}

void Attention::backward_projections(const Gradients& d, ConstMat x, const Saved& s, Mat dx, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  const std::span<const std::int32_t> rope_rows = (local_rope ? pass.rope_local : pass.rope).rows;
  auto start = [&](Mat heads, const HeadNorms& norms, const SavedActivation& plain) {
    if (!norms || !norm_after_rope) rotate(heads, rope_rows, true, pass);
    if (clip > 0) clip_backward(plain, norms, heads, pass);
    if (norms) norms.backward(heads, plain.read(pass.arena), pass.arena);
    if (norms && norm_after_rope) rotate(heads, rope_rows, true, pass);
  };
  start(d.q, q_heads(), s.q_plain);
  start(d.k, k_heads(), s.k_plain);
  if (clip > 0) kernels::clip_backward(s.v_plain.read(pass.arena), clip, d.v);
  if (latent) return latent.backward(d.q, d.k, d.v, x, s.latent, dx, pass);
  if (qkv) {
    Mat fused = pass.arena.matrix(d.q.rows, qkv.out());
    const FusedColumns columns{shape};
    put_columns(d.q, columns.q(), fused);
    put_columns(d.k, columns.k(), fused);
    put_columns(d.v, columns.v(), fused);
    return qkv.backward(fused, x, s.qkv_proj, dx, Write::set, pass);
  }
  v.backward(d.v, x, s.v_proj, dx, Write::set, pass);
  k.backward(d.k, x, s.k_proj, dx, Write::add, pass);
  q.backward(d.q, x, s.q_proj, dx, Write::add, pass);
}

// Prefill: several new rows of one sequence.
void Attention::read_cached(const SequenceRows& rows, const Projected& p, std::int64_t layer, Mat out, Mat lse,
                            Pass& pass) const {
  Arena::Scope scope(pass.arena);
  const std::int64_t before = rows.cache->length(), after = before + rows.count;
  const kernels::CachedRows keys = rows.cache->keys(layer, after), values = rows.cache->values(layer, after);
  Mat new_k = p.k.slice(rows.first, rows.count), new_v = p.v.slice(rows.first, rows.count);
  const bool as_new = before == 0 && keys.dtype == DType::f32;
  if (!as_new) {  // reads the cached prefix, and the new tokens as the cache has rounded them
    new_k = pass.arena.matrix(after, key_width()), new_v = pass.arena.matrix(after, key_width());
    kernels::load_rows(keys, 0, new_k);
    kernels::load_rows(values, 0, new_v);
  }
  kernels::attention_tail(shape_now(), p.q.slice(rows.first, rows.count), new_k, new_v,
                          out.slice(rows.first, rows.count), lse.slice(rows.first, rows.count));
}

void Attention::forward_cached(ConstMat x, std::span<const SequenceRows> sequences,
                               const std::vector<std::int32_t>* ends, std::int64_t layer, Mat y, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  Saved s = plan(x.rows, y.rows, y.rows, {}, pass.arena);
  Projected p = project(x, ends, s, pass);
  Mat out = s.out.whole;
  std::vector<kernels::CachedQuery> queries;
  for (const SequenceRows& rows : sequences) {
    std::int64_t before = rows.cache->length(), after = before + rows.count;
    DML_CHECK(after <= rows.cache->capacity());
    kernels::CachedRows keys = rows.cache->keys(layer, after), values = rows.cache->values(layer, after);
    kernels::store_rows(p.k.slice(rows.first, rows.count), keys, before);
    kernels::store_rows(p.v.slice(rows.first, rows.count), values, before);
    if (!ends && pass.rows == kernels::RowMethod::packed) {
      read_cached(rows, p, layer, out, s.lse, pass);
      continue;
    }
    const std::int64_t count = ends ? rows.outputs : rows.count, first = ends ? std::ssize(queries) : rows.first;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t seen = after - count + i + 1;
      queries.push_back({p.q.row(first + i), keys.head_of(seen), values.head_of(seen), out.row(first + i)});
    }
  }
  if (!queries.empty()) kernels::attention_decode(shape_now(), queries, pass.arena);
  Pass how = ends ? pass.for_last_rows() : pass;
  if (y.rows > 0) o.forward(narrowed(out, pass), y, Write::set, s.o_proj, how);
}

}  // namespace dml
