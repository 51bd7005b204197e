#include "diagnose/operation_count.h"

#include <algorithm>

namespace dml {
namespace {

double product(double rows, std::int64_t in, std::int64_t out) {
  return 2 * rows * static_cast<double>(in) * static_cast<double>(out);
}

// `wants_dx`: something is trained below, or in the same block before it.
OperationCount linear(const Linear& l, double rows, bool wants_dx) {
  OperationCount n;
  if (!l) return n;
  n.forward = product(rows, l.in(), l.out());
  n.backward = (wants_dx ? n.forward : 0) + (l.weight ? n.forward : 0);
  if (l.lora) {
    std::int64_t rank = l.lora->a.rows;
    double down = product(rows, l.in(), rank), up = product(rows, rank, l.out());
    n.forward += down + up;
    n.backward += up * 2 + down * (wants_dx ? 2 : 1);
  }
  return n;
}

double useful_tokens(const PackedBatch& batch) {
  std::int64_t n = 0;
  for (std::int64_t d = 0; d < batch.documents(); ++d) n += batch.labeled_length(d);
  return static_cast<double>(n);
}

// Pairs of a query and a key it may see, over all queries that feed a label or over those of labeled rows.
double attention_pairs(const PackedBatch& batch, std::int64_t window, bool labeled_only) {
  double pairs = 0;
  for (std::int64_t d = 0; d < batch.documents(); ++d) {
    const auto first = static_cast<std::size_t>(batch.starts[static_cast<std::size_t>(d)]);
    for (std::size_t t = first; t < first + static_cast<std::size_t>(batch.labeled_length(d)); ++t) {
      if (labeled_only && batch.labels[t] == kIgnore) continue;
      std::int64_t seen = batch.positions[t] + 1;
      pairs += static_cast<double>(window > 0 ? std::min(seen, window) : seen);
    }
  }
  return pairs;
}

OperationCount decoder_layer(const DecoderLayer& layer, const PackedBatch& batch, bool last, bool below_trains) {
  const double tokens = useful_tokens(batch);
  const bool picks = last && !layer.parallel;
  const double rows = picks ? static_cast<double>(batch.trained()) : tokens;
  const Attention& a = layer.attention;
  const bool before_qkv = below_trains || layer.attention_norm.trains();
  const bool qkv = before_qkv || a.projections_train();
  const bool before_mlp = layer.parallel ? before_qkv : qkv || a.o.trains() || layer.mlp_norm.trains();
  auto mlp = [&](const Mlp& m, double rows_of_it) {
    const bool inside = before_mlp || m.gate.trains() || m.up.trains();
    OperationCount count = linear(m.gate, rows_of_it, before_mlp);
    count += linear(m.up, rows_of_it, before_mlp);
    count += linear(m.down, rows_of_it, inside);
    return count;
  };

  OperationCount n;
  n += linear(a.q, rows, before_qkv);
  n += linear(a.k, tokens, before_qkv);
  n += linear(a.v, tokens, before_qkv);
  n += linear(a.latent.q_a, tokens, before_qkv);
  n += linear(a.latent.q_b, tokens, before_qkv || a.latent.q_a.trains());
  n += linear(a.latent.kv_a, tokens, before_qkv);
  n += linear(a.latent.kv_b, tokens, before_qkv || a.latent.kv_a.trains());
  double pairs = attention_pairs(batch, a.shape.window, picks) * static_cast<double>(a.query_width());
  n += OperationCount{4 * pairs, qkv ? 8 * pairs : 0};
  n += linear(a.o, rows, qkv);
  n += mlp(layer.mlp, rows);
  const Moe& moe = layer.mlp.moe;
  n += linear(moe.router.gate, rows, before_mlp);
  n += linear(moe.shared_gate, rows, before_mlp);
  n += mlp(moe.shared, rows);
  // Experts are alike: a token costs what its few do, whichever they are.
  if (moe) n += mlp(moe.experts[0], rows * static_cast<double>(moe.router.rule.chosen));
  return n;
}

}  // namespace

OperationCount count_operations(const CausalLm& model, const PackedBatch& batch) {
  OperationCount n;
  const std::int64_t lowest = model.lowest_trained();
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  for (std::int64_t l = 0; l < layers; ++l) {
    OperationCount layer = decoder_layer(model.layers[static_cast<std::size_t>(l)], batch, l + 1 == layers, l > lowest);
    if (l < lowest) layer.backward = 0;
    n += layer;
  }
  kernels::Weight head = model.head.value();
  double logits = product(static_cast<double>(batch.trained()), head.cols, head.rows);
  bool below = lowest < layers || model.head.norm.trains();
  n += OperationCount{logits, (below ? logits : 0) + (model.head.weight ? logits : 0)};
  return n;
}

}  // namespace dml
