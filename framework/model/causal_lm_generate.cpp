// The pass of generation: new rows of several sequences with their caches. Rows with different adapters of one base
// share the products with its weights.
#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "kernels/elementwise.h"
#include "model/causal_lm.h"
#include "model/trimmed_batch.h"
#include "model/weight_slots.h"

namespace dml {
namespace {

bool same_values(const float* a, const float* b, std::int64_t count) {
  return a == b || (a && b && std::memcmp(a, b, static_cast<std::size_t>(count) * sizeof(float)) == 0);
}

bool same_matrix(const kernels::Weight& a, const kernels::Weight& b) {
  return a.data == b.data && a.dtype == b.dtype && a.rows == b.rows && a.cols == b.cols;
}

// Whether a weight is the same in both models, except for an adapter that rows can select.
bool same_weight(CausalLm& a, CausalLm& b, const WeightName& w) {
  if (Linear* x = linear_at(a, w), *y = linear_at(b, w); x && y) {
    if (x->weight || y->weight || x->bias || y->bias || x->lora || (y->lora && w.expert >= 0)) return false;
    return w.bias ? same_values(x->frozen_bias, y->frozen_bias, w.rows) : same_matrix(x->frozen, y->frozen);
  }
  if (Norm* x = norm_at(a, w), *y = norm_at(b, w); x && y) {
    if (x->trains() || y->trains()) return false;
    return w.bias ? same_values(x->frozen_bias, y->frozen_bias, w.rows) : same_values(x->frozen, y->frozen, w.rows);
  }
  const VectorPlace x = vector_at(a, w), y = vector_at(b, w);
  if (x.frozen && y.frozen)
    return !(x.trained && *x.trained) && !(y.trained && *y.trained) && same_values(*x.frozen, *y.frozen, w.rows);
  const auto l = static_cast<std::size_t>(w.layer);
  const Attention &p = a.layers[l].attention, &q = b.layers[l].attention;
  if (w.role == WeightRole::sinks) return !p.sinks && !q.sinks && same_values(p.frozen_sinks, q.frozen_sinks, w.rows);
  return w.role == WeightRole::router_correction;  // never trained
}

bool same_embedding(const Embedding& a, const Embedding& b) {
  return !a.trains() && !b.trains() && same_matrix(a.frozen, b.frozen) &&
         same_matrix(a.frozen_positions, b.frozen_positions) &&
         same_values(a.norm.frozen, b.norm.frozen, a.frozen.cols) &&
         same_values(a.norm.frozen_bias, b.norm.frozen_bias, a.frozen.cols);
}

bool same_head(const LossHead& a, const LossHead& b, const ModelSpec& spec) {
  return !a.trains() && !b.trains() && same_matrix(a.frozen, b.frozen) &&
         same_values(a.frozen_bias, b.frozen_bias, spec.vocab) &&
         same_values(a.norm.frozen, b.norm.frozen, spec.hidden) &&
         same_values(a.norm.frozen_bias, b.norm.frozen_bias, spec.hidden);
}

// Calls part(what, first, count) for every run of consecutive rows whose adapters have the same what.
template <class Of, class Part>
void each_run(std::span<const AdapterRows> groups, Of of, Part part) {
  for (std::size_t i = 0, j = 0; i < groups.size(); i = j) {
    std::int64_t count = 0;
    for (; j < groups.size() && of(groups[j]) == of(groups[i]); ++j) count += groups[j].count;
    part(*of(groups[i]), groups[i].first, count);
  }
}

}  // namespace

bool CausalLm::cache_expires(std::int64_t from, std::int64_t to) const {
  auto switches = [&](const RopeSpec& rope) {
    const std::int64_t last = rope_switch(rope, spec.max_positions);
    return rope.scaling == RopeScaling::longrope && from <= last && to > last;
  };
  return spec.positions == Positions::rope && (switches(spec.rope) || (spec.rope_local && switches(*spec.rope_local)));
}

std::int64_t CausalLm::angles_of(std::int64_t length) const {
  auto kind = [&](const RopeSpec& rope) -> std::int64_t {
    if (length <= rope_switch(rope, spec.max_positions)) return 0;
    return rope.scaling == RopeScaling::dynamic ? length : 1;
  };
  return spec.positions != Positions::rope ? 0
                                           : std::max(kind(spec.rope), spec.rope_local ? kind(*spec.rope_local) : 0);
}

std::optional<std::int32_t> CausalLm::attach_adapter(CausalLm& other) {
  ModelSpec its = other.spec;
  its.tied = spec.tied;  // an adapter on embedding or head unties them
  if (!(its == spec)) return {};
  const std::vector<WeightName> names = weight_names(spec);
  for (const WeightName& w : names)
    if (w.layer >= 0 && !same_weight(*this, other, w)) return {};
  for (const WeightName& w : names)
    if (Linear* linear = w.layer >= 0 && !w.bias ? linear_at(*this, w) : nullptr) {
      const auto& lora = linear_at(other, w)->lora;
      linear->adapters.resize(attached_.size(), nullptr);
      linear->adapters.push_back(lora ? &*lora : nullptr);
    }
  attached_.push_back({same_embedding(embedding, other.embedding) ? nullptr : &other.embedding,
                       same_head(head, other.head, spec) ? nullptr : &other.head});
  return static_cast<std::int32_t>(attached_.size()) - 1;
}

const Embedding* CausalLm::embedding_of(const AdapterRows& rows) const {
  const Embedding* own = rows.adapter < 0 ? nullptr : attached_[static_cast<std::size_t>(rows.adapter)].embedding;
  return own ? own : &embedding;
}
const LossHead* CausalLm::head_of(const AdapterRows& rows) const {
  const LossHead* own = rows.adapter < 0 ? nullptr : attached_[static_cast<std::size_t>(rows.adapter)].head;
  return own ? own : &head;
}

void CausalLm::embed_rows(Mat x, const Pass& pass) {
  const PackedBatch& all = pass.batch;
  auto embed = [&](const Embedding& table, std::int64_t first, std::int64_t count) {
    const auto from = static_cast<std::size_t>(first), size = static_cast<std::size_t>(count);
    const PackedBatch part{all.tokens.subspan(from, size), {}, all.positions.subspan(from, size), {}};
    Pass some{part, arena_, {}, {}};
    table.forward(x.slice(first, count), {}, some);
  };
  if (dry_run())  // for any assignment of rows to adapters
    for (const AttachedModel& a : attached_)
      if (a.embedding) embed(*a.embedding, 0, x.rows);
  if (pass.adapters.empty()) return embed(embedding, 0, x.rows);
  each_run(
      pass.adapters, [&](const AdapterRows& rows) { return embedding_of(rows); }, embed);
}

void CausalLm::end_rows(ConstMat x, std::span<const AdapterRows> groups, Mat logits, Mat states) {
  auto finish = [&](const LossHead& end, std::int64_t first, std::int64_t count) {
    if (states.data) end.norm.forward(x.slice(first, count), states.slice(first, count));
    else end.logits(x.slice(first, count), logits.slice(first, count), arena_, kernels::RowMethod::dots);
  };
  if (dry_run())
    for (const AttachedModel& a : attached_)
      if (a.head) finish(*a.head, 0, x.rows);
  if (groups.empty()) return finish(head, 0, x.rows);
  each_run(
      groups, [&](const AdapterRows& rows) { return head_of(rows); }, finish);
}

void CausalLm::outputs_of(const PackedBatch& batch, std::span<const SequenceRows> sequences, kernels::RowMethod rows,
                          Mat logits, Mat states) {
  Arena::Scope step(arena_);
  if (rows == kernels::RowMethod::by_count)
    rows = batch.size() > std::ssize(sequences) ? kernels::RowMethod::packed : kernels::RowMethod::dots;
  const bool reads = rows == kernels::RowMethod::packed;
  auto documents = arena_.take<RopeDocument>(std::ssize(sequences));
  auto groups = arena_.take<AdapterRows>(std::ssize(sequences)),
       end_groups = arena_.take<AdapterRows>(std::ssize(sequences));
  std::vector<std::int32_t> ends;  // rows that the last layer outputs; of other rows it computes keys and values only
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const SequenceRows& s = sequences[i];
    const auto first_end = std::ssize(ends);
    for (std::int64_t row = s.count - s.outputs; reads && row < s.count; ++row)
      ends.push_back(static_cast<std::int32_t>(s.first + row));
    if (dry_run()) continue;
    documents[i] = {s.first, s.count, s.length > 0 ? s.length : s.cache->length() + s.count};
    groups[i] = {s.first, s.count, s.adapter};
    end_groups[i] = {first_end, s.outputs, s.adapter};
  }
  Pass pass{batch, arena_, rope_.full(batch.positions, documents, arena_),
            rope_.local(batch.positions, documents, arena_)};
  pass.rows = rows, pass.generates = true;
  if (!attached_.empty() && !dry_run()) pass.adapters = groups, pass.last_row_adapters = end_groups;
  Mat x = arena_.matrix(batch.size(), spec.hidden);
  embed_rows(x, pass);
  const std::size_t last = layers.size() - 1;
  for (std::size_t l = 0; l < last; ++l)
    layers[l].forward_cached(x, sequences, nullptr, static_cast<std::int64_t>(l), x, pass);
  Mat top = x;
  if (reads) {
    top = arena_.matrix(std::ssize(ends), spec.hidden);
    if (!ends.empty()) kernels::gather_rows(x, ends, top);
  }
  layers[last].forward_cached(x, sequences, reads ? &ends : nullptr, static_cast<std::int64_t>(last), top, pass);
  if (!dry_run())
    for (const SequenceRows& s : sequences) s.cache->advance(s.count);
  if (top.rows > 0) end_rows(top, reads ? pass.last_row_adapters : pass.adapters, logits, states);
}

void CausalLm::continue_losses(const PackedBatch& batch, std::span<const SequenceRows> sequences,
                               std::span<float> row_losses) {
  Arena::Scope step(arena_);
  auto documents = arena_.take<RopeDocument>(std::ssize(sequences));
  for (std::size_t i = 0; i < sequences.size() && !dry_run(); ++i)
    documents[i] = {sequences[i].first, sequences[i].count, sequences[i].cache->length() + sequences[i].count};
  Pass pass{batch, arena_, rope_.full(batch.positions, documents, arena_),
            rope_.local(batch.positions, documents, arena_)};
  pass.rows = kernels::RowMethod::by_count;
  Mat x = arena_.matrix(batch.size(), spec.hidden);
  embedding.forward(x, {}, pass);
  for (std::size_t l = 0; l < layers.size(); ++l)
    layers[l].forward_cached(x, sequences, {}, static_cast<std::int64_t>(l), x, pass);
  if (!dry_run())
    for (const SequenceRows& s : sequences) s.cache->advance(s.count);
  const Labeled labeled = labeled_rows(batch, batch.trained(), arena_);
  Mat fed = arena_.matrix(batch.trained(), spec.hidden);
  kernels::gather_rows(x, labeled.rows, fed);
  head.loss(fed, {labeled.labels, row_losses}, {}, pass);
}

}  // namespace dml
