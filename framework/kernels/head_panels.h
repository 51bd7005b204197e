// The passes of the loss head over some rows and a part of the vocabulary, panel by panel (cross_entropy.cpp puts them
// together): logits with what sums need, sums of the rows, and the gradient by the logits in their place.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cross_entropy.h"
#include "kernels/packed.h"
#include "kernels/range_ops.h"

namespace dml::kernels {

constexpr std::int64_t kHeadPanel = HeadParts::kRowUnit;  // whole register blocks of every instruction set, or nearly

/// Some of the labelled rows.
struct HeadChunk {
  Factor hidden, hidden_transposed;  // packed once for all panels
  std::span<const Token> labels;
  float* logits;              // panels of (rows, kHeadPanel), of the part of the head in question
  float* label_logits;        // (rows)
  double* log_sums;           // (rows)
  std::span<RowStats> parts;  // (rows, panels)
  std::int64_t panels;
  bool keeps_exponentials;   // of a panel's logits less the largest there, instead of the logits
  const LowRankLogits* low;  // may be null
  ConstMat down;             // its rows, scaled
  const ReplacedRows* replaced = nullptr;
  Mat own = {};                         // logits of the replaced rows, then their gradients
  std::span<const float> weights = {};  // of the rows' gradients; empty: all 1
  HeadBias bias = {};
  ExtraLoss extra = {};
  std::span<double> logit_sums = {}, squares = {};  // (rows, panels); empty: not wanted

  std::size_t place(std::int64_t row, std::int64_t token) const {
    return static_cast<std::size_t>(row * panels + token / kHeadPanel);
  }

  float weight(std::int64_t row) const { return weights.empty() ? 1 : weights[static_cast<std::size_t>(row)]; }

  RowStats& part(std::int64_t row, std::int64_t first) const { return parts[place(row, first)]; }
  Mat panel(std::int64_t first, std::int64_t cols) const {
    return {logits + first * hidden.count(), hidden.count(), cols};
  }
};

/// Rows of the head from `first` on, a multiple of kHeadPanel.
struct HeadPart {
  std::int64_t first;
  Weight values;
  Mat gradient;
};

/// Sets the logits of a part, and the statistics, sums and squares of its panels that are wanted.
void logits_and_stats(const HeadChunk& c, const HeadPart& head, float softcap);
/// log Σ exp(logits) of rows whose panels are all known.
void log_sums_of(std::span<const RowStats> all, std::int64_t panels, std::span<double> log_sums);
/// log Σ p² of such rows; log_squares may be empty.
void add_log_squares(std::span<const RowStats> stats, std::span<const double> squares, std::int64_t panels,
                     std::span<const double> log_sums, std::span<float> log_squares);
/// `total` and the losses, in the order of the rows; row_losses may be null.
double add_losses(double total, std::span<const double> log_sums, const float* label_logits, float* row_losses);
/// Adds the terms of `extra`, unless null, for some rows, in their order.
void add_extra(ExtraLoss* extra, std::span<const double> log_sums, const float* label_logits,
               std::span<const double> logit_sums, std::int64_t panels, std::int64_t vocabulary);
/// Logits to their gradient; the head's gradient on the way.
void gradient_of_logits(const HeadChunk& c, const HeadPart& head, float softcap, std::int64_t vocabulary, Write mode);

}  // namespace dml::kernels
