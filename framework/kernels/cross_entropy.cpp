#include "kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/packed.h"
#include "kernels/simd/loops.h"

// A chunk's logits are kept (at most 100 MB) and turned into their own gradient in place: the vocabulary product is done
// once, three products in all, and so is the exponential (twice under a soft cap, whose slope needs the logits
// themselves). Every pass over them is taken while a panel of them is in the cache: max and sum right
// after the product, the gradient right before the product that needs it. The logits lie panel by panel, each panel
// dense: rows of a whole vocabulary would put every row of a panel on a page of its own.
//
// Of a head in parts, all chunks meet each part: no gradient larger than a part is needed, but the logits of one chunk alone
// can be kept until their sums are known.
namespace dml::kernels {
namespace {

constexpr std::int64_t kMostLogits = std::int64_t{24} << 20, kMostRows = 532, kFewestRows = 32;
constexpr std::int64_t kPanel = HeadParts::kRowUnit;  // whole register blocks of every instruction set, or nearly

// The labelled rows are processed in chunks of `rows`.
struct Chunks {
  std::int64_t rows;
  bool several;
};
Chunks chunks_of(std::int64_t rows, std::int64_t vocabulary, bool low_memory) {
  const std::int64_t unit = 2 * product_loops().mr;  // two equal halves
  const std::int64_t most =
      std::clamp(kMostLogits / (low_memory ? 2 : 1) / vocabulary, kFewestRows, kMostRows / unit * unit);
  const std::int64_t chunks = std::max<std::int64_t>(1, (rows + most - 1) / most);
  // The largest equal part of any number of rows up to these is `most` itself.
  const std::int64_t equal = dry_run_bounds() ? std::min(rows, most) : (rows + chunks - 1) / chunks;
  return {std::min(rows, (equal + unit - 1) / unit * unit), chunks > 1};
}

struct Chunk {
  Factor hidden, hidden_turned;  // packed: every panel meets them
  std::span<const Token> labels;
  float* logits;              // panels of (rows, kPanel), of the part of the head in question
  float* label_logits;        // (rows)
  double* log_sums;           // (rows)
  std::span<RowStats> parts;  // (rows, panels)
  std::int64_t panels;
  bool keeps_exponentials;   // of a panel's logits less the largest there, instead of the logits
  const LowRankLogits* low;  // may be null
  ConstMat down;             // its rows, scaled
  const ReplacedRows* replaced = nullptr;
  Mat own = {};  // logits of the replaced rows, then their gradients
  std::span<const float> weights = {};  // of the rows' gradients; empty: all 1
  HeadBias bias = {};
  ExtraLoss extra = {};
  std::span<double> logit_sums = {};  // (rows, panels); empty where nobody asks for them

  float weight(std::int64_t row) const { return weights.empty() ? 1 : weights[static_cast<std::size_t>(row)]; }

  RowStats& part(std::int64_t row, std::int64_t first) const {
    return parts[static_cast<std::size_t>(row * panels + first / kPanel)];
  }
  Mat panel(std::int64_t first, std::int64_t cols) const {
    return {logits + first * hidden.count(), hidden.count(), cols};
  }
};

// In eight chains, which fit into vectors.
double sum_of(const float* x, std::int64_t n) {
  double sums[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (std::int64_t k = 0; k < 8; ++k) sums[k] += static_cast<double>(x[i + k]);
  for (; i < n; ++i) sums[0] += static_cast<double>(x[i]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// Calls visit(column of the panel, row of `rows`) for the replaced rows that lie in a panel.
template <class F>
void each_replaced(const ReplacedRows& replaced, std::int64_t token, std::int64_t cols, F visit) {
  auto at = std::ranges::lower_bound(replaced.tokens, token);
  for (; at != replaced.tokens.end() && *at < token + cols; ++at)
    visit(*at - token, replaced.numbers[static_cast<std::size_t>(at - replaced.tokens.begin())]);
}

// Rows of the head from `first` on, a multiple of kPanel.
struct Part {
  std::int64_t first;
  Weight values;
  Mat gradient;
};

template <class F>
void each_panel(std::int64_t vocabulary, F panel) {
  parallel_ranges(vocabulary, kPanel, [&](std::int64_t first, std::int64_t last) { panel(first, last - first); });
}

void logits_and_stats(const Chunk& c, const Part& head, float softcap) {
  const std::int64_t rows = c.hidden.count();
  each_panel(head.values.rows, [&](std::int64_t first, std::int64_t cols) {
    const Loops& loop = loops();
    const std::int64_t token = head.first + first;
    Mat logits = c.panel(first, cols);
    gemm_nt_panel(c.hidden, head.values, first, cols, logits);
    if (c.low)
      packed_tile({weight_of(c.down)}, 0, rows, {weight_of(c.low->b)}, token, cols, logits.data, cols, Write::add);
    if (c.replaced)
      each_replaced(*c.replaced, token, cols, [&](std::int64_t column, std::int64_t number) {
        for (std::int64_t i = 0; i < rows; ++i) logits.row(i)[column] = c.own.row(i)[number];
      });
    for (std::int64_t i = 0; i < rows; ++i) {
      float* x = logits.row(i);
      if (c.bias.value) loop.add_scaled(c.bias.value + token, 1, x, cols);
      if (softcap > 0) loop.softcap(x, cols, softcap);
      std::int64_t label = c.labels[static_cast<std::size_t>(i)] - token;
      if (label >= 0 && label < cols) c.label_logits[i] = x[label];
      if (!c.logit_sums.empty()) c.logit_sums[static_cast<std::size_t>(i * c.panels + token / kPanel)] = sum_of(x, cols);
      c.part(i, token) = c.keeps_exponentials ? loop.row_exponentials(x, cols) : loop.row_stats(x, cols);
    }
  });
}

// Once all panels of a row are known.
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

// `total` and the losses, in the order of the rows.
double add_losses(double total, std::span<const double> log_sums, const float* label_logits, float* row_losses) {
  for (std::size_t i = 0; !dry_run() && i < log_sums.size(); ++i) {
    double loss = log_sums[i] - static_cast<double>(label_logits[i]);
    if (row_losses) row_losses[i] = static_cast<float>(loss);
    total += loss;
  }
  return total;
}

// What `extra` adds to the losses of rows, in their order.
void add_extra(ExtraLoss* extra, std::span<const double> log_sums, const float* label_logits,
               std::span<const double> logit_sums, std::int64_t panels, std::int64_t vocabulary) {
  if (!extra || dry_run()) return;
  for (std::size_t i = 0; i < log_sums.size(); ++i) {
    const double lse = log_sums[i];
    extra->sum += static_cast<double>(extra->z_loss) * lse * lse;
    if (logit_sums.empty()) continue;
    double sum = 0;
    for (double part : logit_sums.subspan(i * static_cast<std::size_t>(panels), static_cast<std::size_t>(panels))) sum += part;
    extra->sum += static_cast<double>(extra->label_smoothing) *
                  (static_cast<double>(label_logits[i]) - sum / static_cast<double>(vocabulary));
  }
}

// The gradient by the logits x of row i, but for the part of its label.
void gradient_of_row(const Chunk& c, std::int64_t i, std::int64_t token, float* x, std::int64_t cols, float softcap,
                     std::int64_t vocabulary) {
  const double log_sum = c.log_sums[i], weight = static_cast<double>(c.weight(i)),
               factor = weight * (1 + 2 * static_cast<double>(c.extra.z_loss) * log_sum);
  const auto spread = static_cast<float>(weight * static_cast<double>(c.extra.label_smoothing) / static_cast<double>(vocabulary));
  if (c.keeps_exponentials) {
    const double share = std::exp(static_cast<double>(c.part(i, token).max) - log_sum);
    loops().set_scaled(x, static_cast<float>(share * factor), x, cols);
    for (std::int64_t j = 0; spread > 0 && j < cols; ++j) x[j] -= spread;
  } else if (spread > 0) {  // the slope of the soft cap concerns both parts
    for (std::int64_t j = 0; j < cols; ++j) {
      const float ratio = softcap > 0 ? x[j] / softcap : 0;
      x[j] = (static_cast<float>(std::exp(static_cast<double>(x[j]) - log_sum) * factor) - spread) * (1 - ratio * ratio);
    }
  } else {
    loops().capped_softmax_gradient(x, cols, static_cast<float>(log_sum), softcap);
    if (factor != 1) loops().set_scaled(x, static_cast<float>(factor), x, cols);
  }
}

// Logits to their gradient; the head's gradient on the way.
void gradient_of_logits(const Chunk& c, const Part& head, float softcap, std::int64_t vocabulary, Write mode) {
  const Mat dhead = head.gradient;
  each_panel(head.values.rows, [&](std::int64_t first, std::int64_t cols) {
    const std::int64_t token = head.first + first;
    Mat logits = c.panel(first, cols);
    for (std::int64_t i = 0; i < c.hidden.count(); ++i) {
      float* x = logits.row(i);
      gradient_of_row(c, i, token, x, cols, softcap, vocabulary);
      std::int64_t label = c.labels[static_cast<std::size_t>(i)] - token;
      if (label < 0 || label >= cols) continue;
      float ratio = softcap > 0 ? c.label_logits[i] / softcap : 0;
      x[label] -= (1 - ratio * ratio) * (1 - c.extra.label_smoothing) * c.weight(i);
    }
    for (std::int64_t i = 0; c.bias.gradient && i < c.hidden.count(); ++i)
      loops().add_scaled(logits.row(i), 1, c.bias.gradient + token, cols);
    // The head's own rows have no part in these logits.
    if (c.replaced)
      each_replaced(*c.replaced, token, cols, [&](std::int64_t column, std::int64_t number) {
        for (std::int64_t i = 0; i < c.hidden.count(); ++i)
          c.own.row(i)[number] = std::exchange(logits.row(i)[column], 0.0f);
      });
    if (!dhead.empty())
      packed_tile({weight_of(logits), true}, 0, cols, c.hidden_turned, 0, dhead.cols, dhead.row(first), dhead.cols,
                  mode);
    if (c.low && !c.low->db.empty())
      packed_tile({weight_of(logits), true}, 0, cols, {weight_of(c.down), true}, 0, c.down.cols, c.low->db.row(token),
                  c.down.cols, Write::add);
  });
}

}  // namespace

double cross_entropy(ConstMat hidden, const Weight& head, std::span<const Token> labels, float softcap,
                     std::span<float> row_losses, Mat dhidden, Mat dhead, Write dhead_mode, Arena& scratch,
                     const LowRankLogits* low, bool low_memory, const ReplacedRows* replaced,
                     std::span<const float> row_weights, HeadBias bias, ExtraLoss* extra) {
  const std::int64_t rows = hidden.rows, vocabulary = head.rows, panels = (vocabulary + kPanel - 1) / kPanel;
  ProfileScope profiled("cross_entropy",
                        2.0 * static_cast<double>(hidden.size() * vocabulary) * (dhead.empty() ? 1 : 2));
  DML_CHECK(static_cast<std::int64_t>(labels.size()) == rows && head.cols == hidden.cols);
  DML_CHECK(row_losses.empty() || static_cast<std::int64_t>(row_losses.size()) == rows);
  DML_CHECK(row_weights.empty() || static_cast<std::int64_t>(row_weights.size()) == rows);
  if (rows == 0 && dhead_mode == Write::set) fill(dhead.flat(), 0);
  if (rows == 0) return 0;
  const bool gradient = !dhidden.empty() || !dhead.empty();
  Arena::Scope scope(scratch);
  const std::int64_t most = chunks_of(rows, vocabulary, low_memory).rows;
  Mat block = scratch.matrix(most, vocabulary);
  auto label_logits = scratch.take<float>(most);
  auto log_sums = scratch.take<double>(most);
  auto parts = scratch.take<RowStats>(most * panels);
  auto logit_sums = scratch.take<double>(extra && extra->label_smoothing > 0 ? most * panels : 0);
  auto factor = [&](std::int64_t first, std::int64_t count, bool turned) {
    return Factor{weight_of(hidden.slice(first, count)), turned};
  };
  float* packed = scratch.take<float>(packed_size(factor(0, most, false), Side::a)).data();
  float* packed_turned =
      dhead.empty() ? nullptr : scratch.take<float>(packed_size(factor(0, most, true), Side::b)).data();
  Mat down = low ? scratch.matrix(most, low->down.cols) : Mat{};
  Mat own = replaced ? scratch.matrix(most, replaced->rows.rows) : Mat{};
  double total = 0;
  for (std::int64_t first = 0; first < rows; first += most) {
    std::int64_t count = std::min(most, rows - first);
    if (low) {
      copy(low->down.slice(first, count), down.slice(0, count));
      scale(down.slice(0, count), low->scale);
    }
    auto at = static_cast<std::size_t>(first), n = static_cast<std::size_t>(count);
    Chunk c{pack(factor(first, count, false), Side::a, packed),
            dhead.empty() ? Factor{} : pack(factor(first, count, true), Side::b, packed_turned),
            labels.subspan(at, n),
            block.data,
            label_logits.data(),
            log_sums.data(),
            parts,
            panels,
            gradient && softcap == 0,
            low,
            low ? ConstMat(down.slice(0, count)) : ConstMat{},
            replaced,
            replaced ? own.slice(0, count) : Mat{},
            row_weights.empty() ? row_weights : row_weights.subspan(at, n),
            bias,
            extra ? *extra : ExtraLoss{},
            logit_sums};
    const Part all{0, head, dhead};
    if (replaced) gemm_nt(hidden.slice(first, count), weight_of(replaced->rows), c.own, Write::set);
    logits_and_stats(c, all, softcap);
    log_sums_of(parts, panels, log_sums.first(n));
    if (gradient) gradient_of_logits(c, all, softcap, vocabulary, first == 0 ? dhead_mode : Write::add);
    if (gradient && replaced && !replaced->drows.empty())
      gemm_tn(c.own, hidden.slice(first, count), replaced->drows, Write::add);
    if (!dhidden.empty()) {
      gemm_nn_panels(c.logits, count, kPanel, head, dhidden.slice(first, count), Write::set);
      if (replaced) gemm_nn(c.own, weight_of(replaced->rows), dhidden.slice(first, count), Write::add);
    }
    if (low && !low->ddown.empty())
      gemm_nn_panels(c.logits, count, kPanel, weight_of(low->b), low->ddown.slice(first, count), Write::set);
    total = add_losses(total, log_sums.first(n), c.label_logits, row_losses.empty() ? nullptr : &row_losses[at]);
    add_extra(extra, log_sums.first(n), c.label_logits, logit_sums, panels, vocabulary);
  }
  if (low && !low->ddown.empty()) scale(low->ddown, low->scale);
  return total;
}

double cross_entropy(ConstMat hidden, const HeadParts& head, std::span<const Token> labels, float softcap,
                     std::span<float> row_losses, Mat dhidden, Arena& scratch, bool low_memory,
                     std::span<const float> row_weights, HeadBias bias, ExtraLoss* extra) {
  const std::int64_t rows = hidden.rows, vocabulary = head.starts.back(), panels = (vocabulary + kPanel - 1) / kPanel;
  const bool gradient = dhidden.data != nullptr;
  ProfileScope profiled("cross_entropy", 2.0 * static_cast<double>(hidden.size() * vocabulary) * (gradient ? 2 : 1));
  DML_CHECK(static_cast<std::int64_t>(labels.size()) == rows && (rows == 0 || dhidden.data != hidden.data));
  DML_CHECK(row_losses.empty() || static_cast<std::int64_t>(row_losses.size()) == rows);
  DML_CHECK(row_weights.empty() || static_cast<std::int64_t>(row_weights.size()) == rows);
  Arena::Scope scope(scratch);
  const auto [most, several] = chunks_of(rows, vocabulary, low_memory);
  std::int64_t widest = 0;
  for (std::size_t k = 0; k + 1 < head.starts.size(); ++k)
    widest = std::max(widest, head.starts[k + 1] - head.starts[k]);
  float* kept = gradient ? scratch.take<float>(most * vocabulary).data() : nullptr;  // the first chunk's
  float* passing = several || !gradient ? scratch.take<float>(most * widest).data() : nullptr;
  auto label_logits = scratch.take<float>(rows);
  auto log_sums = scratch.take<double>(rows);
  auto stats = scratch.take<RowStats>(rows * panels);
  auto logit_sums = scratch.take<double>(extra && extra->label_smoothing > 0 ? rows * panels : 0);
  auto factor = [&](std::int64_t first, std::int64_t count, bool turned) {
    return Factor{weight_of(hidden.slice(first, count)), turned};
  };
  float* packed = scratch.take<float>(packed_size(factor(0, most, false), Side::a)).data();
  float* packed_turned =
      gradient ? scratch.take<float>(packed_size(factor(0, most, true), Side::b)).data() : nullptr;
  auto each_chunk = [&](const Part& part, bool turned, auto&& visit) {
    for (std::int64_t first = 0; first < rows; first += most) {
      const std::int64_t count = std::min(most, rows - first);
      const auto at = static_cast<std::size_t>(first), n = static_cast<std::size_t>(count),
                 each = static_cast<std::size_t>(panels);
      visit(first, Chunk{pack(factor(first, count, false), Side::a, packed),
                         turned ? pack(factor(first, count, true), Side::b, packed_turned) : Factor{},
                         labels.subspan(at, n),
                         first == 0 && gradient ? kept + part.first * count : passing,
                         label_logits.data() + first,
                         log_sums.data() + first,
                         stats.subspan(at * each, n * each),
                         panels,
                         gradient && softcap == 0,
                         nullptr,
                         {},
                         nullptr,
                         {},
                         row_weights.empty() ? row_weights : row_weights.subspan(at, n),
                         bias,
                         extra ? *extra : ExtraLoss{},
                         logit_sums.empty() ? logit_sums : logit_sums.subspan(at * each, n * each)});
    }
  };
  auto open = [&](std::size_t k, bool want) {
    HeadParts::Rows some = head.open(k, want);
    return Part{head.starts[k], some.values, some.gradient};
  };
  const std::size_t parts = head.starts.size() - 1;
  for (std::size_t k = 0; k < parts; ++k) {
    const Part part = open(k, false);
    each_chunk(part, false, [&](std::int64_t, const Chunk& c) { logits_and_stats(c, part, softcap); });
  }
  log_sums_of(stats, panels, log_sums);
  for (std::size_t k = 0; gradient && k < parts; ++k) {
    const Part part = open(k, true);
    each_chunk(part, !part.gradient.empty(), [&](std::int64_t first, const Chunk& c) {
      if (first > 0) logits_and_stats(c, part, softcap);
      gradient_of_logits(c, part, softcap, vocabulary, Write::add);
      gemm_nn_panels(c.logits, c.hidden.count(), kPanel, part.values, dhidden.slice(first, c.hidden.count()),
                     k > 0 ? Write::add : Write::set);
    });
    head.close(k);
  }
  add_extra(extra, log_sums, label_logits.data(), logit_sums, panels, vocabulary);
  return add_losses(0, log_sums, label_logits.data(), row_losses.empty() ? nullptr : row_losses.data());
}

std::int64_t logits_computed_twice(std::int64_t rows, std::int64_t vocabulary, bool low_memory) {
  return rows - chunks_of(rows, vocabulary, low_memory).rows;
}

}  // namespace dml::kernels
