// The passes of the loss head over a chunk of rows and a part of the vocabulary, panel by panel: logits with their
// statistics, sums of the rows, and gradients of the logits in place. cross_entropy.cpp combines them.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cross_entropy.h"
#include "kernels/packed.h"
#include "kernels/range_ops.h"

namespace dml::kernels {

constexpr std::int64_t kHeadPanel = HeadParts::kRowUnit;  // whole register blocks of every instruction set, or nearly

/// A chunk of the labeled rows.
struct HeadChunk {
  Factor hidden, hidden_transposed;  // packed once for all panels
  std::span<const Token> labels;
  float* logits;              // panels of (rows, kHeadPanel), of the current part of the head
  float* label_logits;        // (rows)
  double* log_sums;           // (rows)
  std::span<RowStats> parts;  // (rows, panels)
  std::int64_t panels;
  bool keeps_exponentials;   // stores exp(logit − largest of its panel) instead of logits
  const LowRankLogits* low;  // may be null
  ConstMat down;             // the rows of low->down, scaled
  const ReplacedRows* replaced = nullptr;
  Mat own = {};                         // logits of the replaced rows, then their gradients
  std::span<const float> weights = {};  // factors of the rows' gradients; empty: all 1
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

/// Rows of the head from `first`, a multiple of kHeadPanel.
struct HeadPart {
  std::int64_t first;
  Weight values;
  Mat gradient;
};

/// Sets the logits of a part, and the requested statistics, sums and squares of its panels.
void logits_and_stats(const HeadChunk& c, const HeadPart& head, float softcap);
/// log Σ exp(logits) of rows, after all their panels are computed.
void log_sums_of(std::span<const RowStats> all, std::int64_t panels, std::span<double> log_sums);
/// log Σ p² of these rows; log_squares may be empty.
void add_log_squares(std::span<const RowStats> stats, std::span<const double> squares, std::int64_t panels,
                     std::span<const double> log_sums, std::span<float> log_squares);
/// Returns `total` plus the losses, added in the order of rows; sets row_losses unless null.
double add_losses(double total, std::span<const double> log_sums, const float* label_logits, float* row_losses);
/// Adds the terms of these rows to `extra` unless null, in their order.
void add_extra(ExtraLoss* extra, std::span<const double> log_sums, const float* label_logits,
               std::span<const double> logit_sums, std::int64_t panels, std::int64_t vocabulary);
/// Overwrites the logits by their gradients, and adds the head's gradient.
void gradient_of_logits(const HeadChunk& c, const HeadPart& head, float softcap, std::int64_t vocabulary, Write mode);

}  // namespace dml::kernels
