#include "kernels/head_panels.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/parallel.h"
#include "kernels/gemm.h"
#include "kernels/packed_panels.h"
#include "kernels/simd/loops.h"
#include "kernels/simd/product_loops.h"

namespace dml::kernels {
namespace {

// Σ term(x) in eight independent chains, for vectorization.
template <class F>
double sum_of(const float* x, std::int64_t n, F term) {
  double sums[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (std::int64_t k = 0; k < 8; ++k) sums[k] += term(static_cast<double>(x[i + k]));
  for (; i < n; ++i) sums[0] += term(static_cast<double>(x[i]));
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// Σ exp(2 (logit − largest)) of a panel's row.
double squares_of(const HeadChunk& c, const RowStats& stats, const float* x, std::int64_t cols) {
  if (c.keeps_exponentials) return sum_of(x, cols, [](double e) { return e * e; });
  const auto top = static_cast<double>(stats.max);
  return sum_of(x, cols, [top](double v) { return std::exp(2 * (v - top)); });
}

// Calls visit(column of the panel, row of `rows`) for the replaced rows that lie in a panel.
template <class F>
void each_replaced(const ReplacedRows& replaced, std::int64_t token, std::int64_t cols, F visit) {
  auto at = std::ranges::lower_bound(replaced.tokens, token);
  for (; at != replaced.tokens.end() && *at < token + cols; ++at)
    visit(*at - token, replaced.numbers[static_cast<std::size_t>(at - replaced.tokens.begin())]);
}

constexpr std::int64_t kMaxCuts = 7;

// The number of tiles of each panel, chosen so that few threads wait for the last panels. Each tile packs its operands
// again. Results do not depend on it.
std::int64_t cuts_for(std::int64_t panels) {
  constexpr double kAgain = 0.02;  // cost of packing again, relative to the time of a panel
  std::int64_t best = 1;
  double least = 0;
  for (std::int64_t cuts = 1; cuts <= kMaxCuts; ++cuts) {
    const auto rounds = static_cast<double>(ceil_div(panels * cuts, std::int64_t{threads()}));
    const double time = rounds / static_cast<double>(cuts) * (1 + kAgain * static_cast<double>(cuts - 1));
    if (cuts == 1 || time < least) best = cuts, least = time;
  }
  return best;
}

// Part `cut` of `cuts` of [0, size), in whole units.
struct Range {
  std::int64_t first, size;
};
Range part_of(std::int64_t size, std::int64_t cut, std::int64_t cuts, std::int64_t unit) {
  const std::int64_t each = round_up(ceil_div(size, cuts), unit), first = std::min(size, cut * each);
  return {first, std::min(each, size - first)};
}

// Calls tile(first row of the panel, its rows, cut, cuts) for every cut of every panel of a part of the head.
template <class F>
void each_panel(std::int64_t vocabulary, F tile) {
  const std::int64_t panels = ceil_div(vocabulary, kHeadPanel), cuts = cuts_for(panels);
  parallel_for(panels * cuts, [&](std::int64_t i) {
    const std::int64_t first = i / cuts * kHeadPanel;
    tile(first, std::min(kHeadPanel, vocabulary - first), i % cuts, cuts);
  });
}

// The gradient of row i with respect to its logits x, without the term of its label.
void gradient_of_row(const HeadChunk& c, std::int64_t i, std::int64_t token, float* x, std::int64_t cols, float softcap,
                     std::int64_t vocabulary) {
  const double log_sum = c.log_sums[i], weight = static_cast<double>(c.weight(i)),
               factor = weight * (1 + 2 * static_cast<double>(c.extra.z_loss) * log_sum);
  const auto spread =
      static_cast<float>(weight * static_cast<double>(c.extra.label_smoothing) / static_cast<double>(vocabulary));
  if (c.keeps_exponentials) {
    const double share = std::exp(static_cast<double>(c.part(i, token).max) - log_sum);
    loops().set_scaled(x, static_cast<float>(share * factor), x, cols);
    for (std::int64_t j = 0; spread > 0 && j < cols; ++j) x[j] -= spread;
  } else if (spread > 0) {  // the derivative of the soft cap multiplies both terms
    for (std::int64_t j = 0; j < cols; ++j) {
      const float ratio = softcap > 0 ? x[j] / softcap : 0;
      x[j] =
          (static_cast<float>(std::exp(static_cast<double>(x[j]) - log_sum) * factor) - spread) * (1 - ratio * ratio);
    }
  } else {
    loops().capped_softmax_gradient(x, cols, static_cast<float>(log_sum), softcap);
    if (factor != 1) loops().set_scaled(x, static_cast<float>(factor), x, cols);
  }
}

}  // namespace

// A tile is some rows of a panel.
void logits_and_stats(const HeadChunk& c, const HeadPart& head, float softcap) {
  each_panel(head.values.rows, [&](std::int64_t first, std::int64_t cols, std::int64_t cut, std::int64_t cuts) {
    const Loops& loop = loops();
    const std::int64_t token = head.first + first;
    const Range own = part_of(c.hidden.count(), cut, cuts, product_loops().mr);
    if (own.size == 0) return;
    Mat logits = c.panel(first, cols);
    packed_tile(c.hidden, own.first, own.size, {head.values}, first, cols, logits.row(own.first), cols, Write::set);
    if (c.low)
      packed_tile({weight_of(c.down)}, own.first, own.size, {weight_of(c.low->b)}, token, cols, logits.row(own.first),
                  cols, Write::add);
    if (c.replaced)
      each_replaced(*c.replaced, token, cols, [&](std::int64_t column, std::int64_t number) {
        for (std::int64_t i = own.first; i < own.first + own.size; ++i) logits.row(i)[column] = c.own.row(i)[number];
      });
    for (std::int64_t i = own.first; i < own.first + own.size; ++i) {
      float* x = logits.row(i);
      if (c.bias.value) loop.add_scaled(c.bias.value + token, 1, x, cols);
      if (softcap > 0) loop.softcap(x, cols, softcap);
      std::int64_t label = c.labels[static_cast<std::size_t>(i)] - token;
      if (label >= 0 && label < cols) c.label_logits[i] = x[label];
      if (!c.logit_sums.empty()) c.logit_sums[c.place(i, token)] = sum_of(x, cols, [](double v) { return v; });
      const RowStats& stats = c.part(i, token) =
          c.keeps_exponentials ? loop.row_exponentials(x, cols) : loop.row_stats(x, cols);
      if (!c.squares.empty()) c.squares[c.place(i, token)] = squares_of(c, stats, x, cols);
    }
  });
}

void log_sums_of(std::span<const RowStats> all, std::int64_t panels, std::span<double> log_sums) {
  parallel_ranges(std::ssize(log_sums), 16, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      auto parts = all.subspan(static_cast<std::size_t>(i * panels), static_cast<std::size_t>(panels));
      float top = parts[0].max;
      for (const RowStats& p : parts) top = p.max > top ? p.max : top;
      double sum = 0;
      for (const RowStats& p : parts) sum += p.sum * std::exp(static_cast<double>(p.max) - static_cast<double>(top));
      log_sums[static_cast<std::size_t>(i)] = static_cast<double>(top) + std::log(sum);
    }
  });
}

double add_losses(double total, std::span<const double> log_sums, const float* label_logits, float* row_losses) {
  for (std::size_t i = 0; !dry_run() && i < log_sums.size(); ++i) {
    double loss = log_sums[i] - static_cast<double>(label_logits[i]);
    if (row_losses) row_losses[i] = static_cast<float>(loss);
    total += loss;
  }
  return total;
}

// Exponentials of a panel are e^(largest − log sum) times p.
void add_log_squares(std::span<const RowStats> stats, std::span<const double> squares, std::int64_t panels,
                     std::span<const double> log_sums, std::span<float> log_squares) {
  const auto each = static_cast<std::size_t>(panels);
  for (std::size_t i = 0; !dry_run() && i < log_squares.size(); ++i) {
    double sum = 0;
    for (auto k = i * each; k < (i + 1) * each; ++k)
      sum += squares[k] * std::exp(2 * (static_cast<double>(stats[k].max) - log_sums[i]));
    log_squares[i] = static_cast<float>(std::log(sum));
  }
}

void add_extra(ExtraLoss* extra, std::span<const double> log_sums, const float* label_logits,
               std::span<const double> logit_sums, std::int64_t panels, std::int64_t vocabulary) {
  if (!extra || dry_run()) return;
  for (std::size_t i = 0; i < log_sums.size(); ++i) {
    const double lse = log_sums[i];
    extra->sum += static_cast<double>(extra->z_loss) * lse * lse;
    if (logit_sums.empty()) continue;
    double sum = 0;
    for (double part : logit_sums.subspan(i * static_cast<std::size_t>(panels), static_cast<std::size_t>(panels)))
      sum += part;
    extra->sum += static_cast<double>(extra->label_smoothing) *
                  (static_cast<double>(label_logits[i]) - sum / static_cast<double>(vocabulary));
  }
}

// A tile is some columns of a panel: a head's row is the sum over all rows of the chunk.
void gradient_of_logits(const HeadChunk& c, const HeadPart& head, float softcap, std::int64_t vocabulary, Write mode) {
  const Mat dhead = head.gradient;
  each_panel(head.values.rows, [&](std::int64_t first, std::int64_t width, std::int64_t cut, std::int64_t cuts) {
    const Range own = part_of(width, cut, cuts, product_loops().mr);
    if (own.size == 0) return;
    const std::int64_t token = head.first + first + own.first, cols = own.size;
    const Mat logits = c.panel(first, width);
    auto row = [&](std::int64_t i) { return logits.row(i) + own.first; };
    for (std::int64_t i = 0; i < c.hidden.count(); ++i) {
      float* x = row(i);
      gradient_of_row(c, i, token, x, cols, softcap, vocabulary);
      std::int64_t label = c.labels[static_cast<std::size_t>(i)] - token;
      if (label < 0 || label >= cols) continue;
      float ratio = softcap > 0 ? c.label_logits[i] / softcap : 0;
      x[label] -= (1 - ratio * ratio) * (1 - c.extra.label_smoothing) * c.weight(i);
    }
    for (std::int64_t i = 0; c.bias.gradient && i < c.hidden.count(); ++i)
      loops().add_scaled(row(i), 1, c.bias.gradient + token, cols);
    // Replaced rows do not contribute to these logits.
    if (c.replaced)
      each_replaced(*c.replaced, token, cols, [&](std::int64_t column, std::int64_t number) {
        for (std::int64_t i = 0; i < c.hidden.count(); ++i) c.own.row(i)[number] = std::exchange(row(i)[column], 0.0f);
      });
    if (!dhead.empty())
      packed_tile({weight_of(logits), true}, own.first, cols, c.hidden_transposed, 0, dhead.cols,
                  dhead.row(first + own.first), dhead.cols, mode);
    if (c.low && !c.low->db.empty())
      packed_tile({weight_of(logits), true}, own.first, cols, {weight_of(c.down), true}, 0, c.down.cols,
                  c.low->db.row(token), c.down.cols, Write::add);
  });
}

}  // namespace dml::kernels
