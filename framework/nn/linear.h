// y = x Wᵀ (+ b) (+ s · ((x Aᵀ) Bᵀ + c)), W frozen in any dtype or trainable; an adapter may be DoRA.
//
// A frozen W gets no gradient; an adapter saves only x Aᵀ for backward (DoRA also its unscaled output). In generation,
// rows of one product may have different adapters, which are added after the product, so the bits of a row depend
// neither on other rows nor on their adapters.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/parallel.h"
#include "kernels/weight.h"
#include "nn/lora.h"
#include "nn/saved_activation.h"

namespace dml {

struct Linear {
  kernels::Weight frozen;  // (out, in); unused when `weight` is set
  ParameterRef weight;
  const float* frozen_bias = nullptr;
  ParameterRef bias;
  std::optional<LoraAdapter> lora;
  std::int64_t packed = -1;                  // the layer's number in PackedWeights; −1: it has no copies
  std::vector<const LoraAdapter*> adapters;  // of attached models, for the rows that Pass::adapters lists; null: none

  struct Saved {
    Mat down;               // x Aᵀ (T, R)
    SavedActivation plain;  // DoRA: the output before scaling (T, out)
    Mat norms;              // DoRA: row norms (1, out)

    /// The saved activations of rows [first, first + count).
    Saved slice(std::int64_t first, std::int64_t count) const;
  };

  explicit operator bool() const { return static_cast<bool>(frozen) || static_cast<bool>(weight); }
  kernels::Weight value() const { return weight ? weight.weight() : frozen; }
  std::int64_t in() const { return weight ? weight.cols : frozen.cols; }
  std::int64_t out() const { return weight ? weight.rows : frozen.rows; }
  bool trains() const { return weight || bias || lora; }

  /// Allocates what forward saves for backward of `tokens` rows.
  Saved plan(std::int64_t tokens, SavePolicy policy, Arena& saved) const;
  /// x (T, in) → y (T, out).
  void forward(ConstMat x, Mat y, Write mode, Saved& saved, Pass& pass) const;
  /// Adds parameter gradients; sets or adds to dx (T, in) unless it is empty. x is forward's input.
  void backward(ConstMat dy, ConstMat x, const Saved& saved, Mat dx, Write mode, Pass& pass) const;
};

/// One layer of a batch of layers that are computed together: rows [row, row + rows) of the common input and output
/// belong to `linear`. Its dropout mask counts them from `first_row`.
struct LinearRows {
  const Linear* linear;
  std::int64_t row, rows, first_row;
  Linear::Saved saved;
  bool biased = true;  // false: the caller adds the biases, including those of adapters, and computes their gradients
  // Gathered rows: row i belongs to token slots[i] / chosen of the batch, ascending. Empty: to token first_row + i.
  std::span<const std::int32_t> slots = {};
  std::int64_t chosen = 1;

  struct Range {
    std::int64_t first, last;
  };
  /// The rows that belong to tokens [first, first + count) of the batch.
  Range of_tokens(std::int64_t first, std::int64_t count) const;
};

/// Calls f(adapter, first, last) for every adapter and its rows [first, last) of `r`. During a DryRun every adapter may
/// have all rows.
template <class F>
void each_adapter(const LinearRows& r, const Pass& pass, F f) {
  if (pass.base_only) return;
  const Linear& l = *r.linear;
  if (l.lora) return f(*l.lora, std::int64_t{0}, r.rows);
  if (dry_run()) {
    for (const LoraAdapter* adapter : l.adapters)
      if (adapter) f(*adapter, std::int64_t{0}, r.rows);
    return;
  }
  for (const AdapterRows& g : pass.adapters) {
    if (g.adapter < 0 || g.adapter >= std::ssize(l.adapters)) continue;
    const LoraAdapter* adapter = l.adapters[static_cast<std::size_t>(g.adapter)];
    const LinearRows::Range own = r.of_tokens(g.first, g.count);
    if (adapter && own.first < own.last) f(*adapter, own.first, own.last);
  }
}

/// A layer of forward_fused(), with its output.
struct FusedLinear {
  const Linear* linear;
  Mat y;
  Linear::Saved* saved;
};
/// Computes y = forward(x) of several layers with the same input; the bits are those of separate calls. In generation
/// they run as one product: a product of few rows is limited by the time to read its weights, and separate products
/// would add a synchronization each.
void forward_fused(std::span<const FusedLinear> layers, ConstMat x, Pass& pass);

/// Forward and backward of several layers, each with its own rows, at the speed of one layer. Layers without rows are
/// allowed. During a DryRun every layer has all rows.
void forward_linears(const kernels::TaskList<LinearRows>& layers, ConstMat x, Mat y, Write mode, Pass& pass);
void backward_linears(const kernels::TaskList<LinearRows>& layers, ConstMat dy, ConstMat x, Mat dx, Write mode,
                      Pass& pass);

}  // namespace dml
