// y = x Wᵀ (+ b) (+ s · ((x Aᵀ) Bᵀ + c)), W frozen and stored in any type, or trainable; with an adapter optionally
// DoRA.
//
// A frozen W gets no gradient; an adapter keeps only x Aᵀ between forward and backward (DoRA also its unscaled output).
// In generation rows of one product may have different adapters: they are added after it, so a row's bits depend
// neither on the other rows nor on their adapters.
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
  std::vector<const LoraAdapter*>
      adapters;  // of other models on this weight, for rows that Pass::adapters lists; null: none

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

  /// Allocates what forward saves for backward, for T tokens.
  Saved plan(std::int64_t tokens, SavePolicy policy, Arena& saved) const;
  /// x (T, in) → y (T, out).
  void forward(ConstMat x, Mat y, Write mode, Saved& saved, Pass& pass) const;
  /// Adds parameter gradients; sets or adds to dx (T, in) unless it is empty. x is the input forward saw.
  void backward(ConstMat dy, ConstMat x, const Saved& saved, Mat dx, Write mode, Pass& pass) const;
};

/// Rows [row, row + rows) of what goes through several layers at once: those of `linear`, `first_row` of all its rows
/// the first of them.
struct LinearRows {
  const Linear* linear;
  std::int64_t row, rows, first_row;
  Linear::Saved saved;
  bool biased = true;  // false: the caller adds biases, those of adapters too, and computes their gradients
  // Of rows that were gathered: row i is of the batch's token places[i] / chosen, ascending. Else it is of token
  // first_row + i.
  std::span<const std::int32_t> places = {};
  std::int64_t chosen = 1;

  struct Range {
    std::int64_t first, last;
  };
  /// Which of these rows are of the batch's tokens [first, first + count).
  Range of_tokens(std::int64_t first, std::int64_t count) const;
};

/// Calls f(adapter, first, last) for every adapter that has a part in rows [first, last) of these, counted from the
/// first of them. Under a DryRun each may have all.
template <class F>
void each_adapter(const LinearRows& r, const Pass& pass, F f) {
  if (pass.base_alone) return;
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

/// A layer that reads the same input as others do, and where its output goes.
struct LinearBeside {
  const Linear* linear;
  Mat y;
  Linear::Saved* saved;
};
/// y = forward(x) of each, with the bits of each alone. In generation they are one product: with few rows a product
/// takes no longer than its weights are read, and threads would wait for each other after each.
void forward_beside(std::span<const LinearBeside> layers, ConstMat x, Pass& pass);

/// Forward and backward of all of them together, as fast as one layer. Layers may have no rows. Under a DryRun each has
/// all.
void forward_linears(const kernels::TaskList<LinearRows>& layers, ConstMat x, Mat y, Write mode, Pass& pass);
void backward_linears(const kernels::TaskList<LinearRows>& layers, ConstMat dy, ConstMat x, Mat dx, Write mode,
                      Pass& pass);

}  // namespace dml
