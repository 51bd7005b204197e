#include "kernels/cross_entropy.h"

#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "core/rounding.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/head_panels.h"
#include "kernels/packed.h"
#include "kernels/simd/product_loops.h"

// A chunk's logits are stored (at most 100 MB) and overwritten by their gradients: the vocabulary product is computed
// once (three products in all), and so is the exponential (twice with a soft cap, whose slope needs the logits). Every
// pass over a panel of logits runs while it is in the cache: maximum and sum right after the product, the gradient
// right before the product that needs it. Panels are stored densely, one after another, since with rows of the whole
// vocabulary every row of a panel would be on its own page.
//
// For a head in parts, all chunks are multiplied with each part in turn: no gradient larger than a part is needed, but
// only the logits of one chunk can be stored until their sums are known.
namespace dml::kernels {
namespace {

constexpr std::int64_t kMaxLogits = std::int64_t{24} << 20, kMaxRows = 532, kMinRows = 32;

// The labeled rows are processed in chunks of `rows`.
struct Chunks {
  std::int64_t rows;
  bool several;
};
Chunks chunks_of(std::int64_t rows, std::int64_t vocabulary, bool low_memory) {
  const std::int64_t unit = 2 * product_loops().mr;  // two equal halves
  const std::int64_t most =
      std::clamp(kMaxLogits / (low_memory ? 2 : 1) / vocabulary, kMinRows, kMaxRows / unit * unit);
  const std::int64_t chunks = std::max<std::int64_t>(1, ceil_div(rows, most));
  // In a bounding dry run, the largest chunk is `most`.
  const std::int64_t equal = dry_run_bounds() ? std::min(rows, most) : ceil_div(rows, chunks);
  return {std::min(rows, round_up(equal, unit)), chunks > 1};
}

void check_task(const HeadTask& t) {
  const auto rows = static_cast<std::size_t>(t.hidden.rows);
  DML_CHECK(t.rows.labels.size() == rows);
  for (const std::size_t size : {t.rows.losses.size(), t.rows.log_squares.size(), t.rows.weights.size()})
    DML_CHECK(size == 0 || size == rows);
}

template <class T>
std::span<T> some_of(std::span<T> all, std::int64_t first, std::int64_t count) {
  return all.empty() ? all : all.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
}

Factor rows_of(const HeadTask& t, std::int64_t first, std::int64_t count, bool transposed) {
  return {weight_of(t.hidden.slice(first, count)), transposed};
}

bool sums_logits(const HeadTask& t) { return t.rows.extra && t.rows.extra->label_smoothing > 0; }

// Whether exponentials replace the logits: without a soft cap the gradient needs the exponentials only; without a
// gradient neither is needed.
bool keeps_exponentials(const HeadTask& t, bool gradient) {
  return t.softcap == 0 && (gradient || !t.rows.log_squares.empty());
}

// Rows [first, first + count) of the task, packed; `transposed` is null if the head is not trained. The caller sets the
// memory of logits and sums.
HeadChunk chunk_at(const HeadTask& t, std::int64_t first, std::int64_t count, float* packed, float* transposed) {
  HeadChunk c{};
  c.hidden = pack(rows_of(t, first, count, false), Side::a, packed);
  if (transposed) c.hidden_transposed = pack(rows_of(t, first, count, true), Side::b, transposed);
  c.labels = some_of(t.rows.labels, first, count);
  c.weights = some_of(t.rows.weights, first, count);
  c.bias = t.bias;
  if (t.rows.extra) c.extra = *t.rows.extra;
  return c;
}

// Computes, from the logits of a chunk that begins at row `first`, the gradients of the head, its replaced rows, the
// hidden rows and the low-rank factor.
void gradients_of_chunk(const HeadTask& t, const WholeHead& head, HeadChunk& c, std::int64_t first) {
  const std::int64_t count = c.hidden.count();
  const LowRankLogits* low = head.low;
  const ReplacedRows* replaced = head.replaced;
  if (!t.dhidden.empty() || !head.gradient.empty()) {
    const Write mode = first == 0 ? head.mode : Write::add;
    gradient_of_logits(c, {0, head.values, head.gradient}, t.softcap, head.values.rows, mode);
    if (replaced && !replaced->drows.empty()) gemm_tn(c.own, t.hidden.slice(first, count), replaced->drows, Write::add);
  }
  if (!t.dhidden.empty()) {
    gemm_nn_panels(c.logits, count, kHeadPanel, head.values, t.dhidden.slice(first, count), Write::set);
    if (replaced) gemm_nn(c.own, weight_of(replaced->rows), t.dhidden.slice(first, count), Write::add);
  }
  if (low && !low->ddown.empty())
    gemm_nn_panels(c.logits, count, kHeadPanel, weight_of(low->b), low->ddown.slice(first, count), Write::set);
}

}  // namespace

double cross_entropy(const HeadTask& t, const WholeHead& head, Arena& scratch) {
  const ConstMat hidden = t.hidden;
  const std::int64_t rows = hidden.rows, vocabulary = head.values.rows, panels = ceil_div(vocabulary, kHeadPanel);
  ProfileScope profiled("cross_entropy",
                        2.0 * static_cast<double>(hidden.size() * vocabulary) * (head.gradient.empty() ? 1 : 2));
  check_task(t);
  DML_CHECK(head.values.cols == hidden.cols);
  if (rows == 0 && head.mode == Write::set) fill(head.gradient.flat(), 0);
  if (rows == 0) return 0;
  const bool trains = !head.gradient.empty(), gradient = !t.dhidden.empty() || trains;
  const LowRankLogits* low = head.low;
  const ReplacedRows* replaced = head.replaced;
  Arena::Scope scope(scratch);
  const std::int64_t most = chunks_of(rows, vocabulary, t.low_memory).rows;
  Mat block = scratch.matrix(most, vocabulary);
  auto label_logits = scratch.take<float>(most);
  auto log_sums = scratch.take<double>(most);
  auto parts = scratch.take<RowStats>(most * panels);
  auto logit_sums = scratch.take<double>(sums_logits(t) ? most * panels : 0);
  auto squares = scratch.take<double>(t.rows.log_squares.empty() ? 0 : most * panels);
  float* packed = scratch.take<float>(packed_size(rows_of(t, 0, most, false), Side::a)).data();
  float* transposed = trains ? scratch.take<float>(packed_size(rows_of(t, 0, most, true), Side::b)).data() : nullptr;
  Mat down = low ? scratch.matrix(most, low->down.cols) : Mat{};
  Mat own = replaced ? scratch.matrix(most, replaced->rows.rows) : Mat{};
  double total = 0;
  for (std::int64_t first = 0; first < rows; first += most) {
    const std::int64_t count = std::min(most, rows - first);
    if (low) {
      copy(low->down.slice(first, count), down.slice(0, count));
      scale(down.slice(0, count), low->scale);
    }
    HeadChunk c = chunk_at(t, first, count, packed, transposed);
    c.logits = block.data, c.label_logits = label_logits.data(), c.log_sums = log_sums.data();
    c.parts = parts, c.panels = panels, c.logit_sums = logit_sums, c.squares = squares;
    c.keeps_exponentials = keeps_exponentials(t, gradient);
    c.low = low, c.replaced = replaced;
    if (low) c.down = down.slice(0, count);
    if (replaced) c.own = own.slice(0, count);
    const auto sums = some_of(log_sums, 0, count);
    if (replaced) gemm_nt(hidden.slice(first, count), weight_of(replaced->rows), c.own, Write::set, RowMethod::packed);
    logits_and_stats(c, {0, head.values, head.gradient}, t.softcap);
    log_sums_of(parts, panels, sums);
    add_log_squares(parts, squares, panels, sums, some_of(t.rows.log_squares, first, count));
    gradients_of_chunk(t, head, c, first);
    total = add_losses(total, sums, c.label_logits, some_of(t.rows.losses, first, count).data());
    add_extra(t.rows.extra, sums, c.label_logits, logit_sums, panels, vocabulary);
  }
  if (low && !low->ddown.empty()) scale(low->ddown, low->scale);
  return total;
}

double cross_entropy(const HeadTask& t, const HeadParts& head, Arena& scratch) {
  const ConstMat hidden = t.hidden;
  const std::int64_t rows = hidden.rows, vocabulary = head.starts.back(), panels = ceil_div(vocabulary, kHeadPanel);
  const bool gradient = t.dhidden.data != nullptr;
  ProfileScope profiled("cross_entropy", 2.0 * static_cast<double>(hidden.size() * vocabulary) * (gradient ? 2 : 1));
  check_task(t);
  DML_CHECK(rows == 0 || t.dhidden.data != hidden.data);
  Arena::Scope scope(scratch);
  const auto [most, several] = chunks_of(rows, vocabulary, t.low_memory);
  std::int64_t widest = 0;
  for (std::size_t k = 0; k + 1 < head.starts.size(); ++k)
    widest = std::max(widest, head.starts[k + 1] - head.starts[k]);
  float* kept = gradient ? scratch.take<float>(most * vocabulary).data() : nullptr;  // the first chunk's
  float* passing = several || !gradient ? scratch.take<float>(most * widest).data() : nullptr;
  auto label_logits = scratch.take<float>(rows);
  auto log_sums = scratch.take<double>(rows);
  auto stats = scratch.take<RowStats>(rows * panels);
  auto logit_sums = scratch.take<double>(sums_logits(t) ? rows * panels : 0);
  auto squares = scratch.take<double>(t.rows.log_squares.empty() ? 0 : rows * panels);
  float* packed = scratch.take<float>(packed_size(rows_of(t, 0, most, false), Side::a)).data();
  float* packed_transposed =
      gradient ? scratch.take<float>(packed_size(rows_of(t, 0, most, true), Side::b)).data() : nullptr;
  auto each_chunk = [&](const HeadPart& part, bool transposed, auto&& visit) {
    for (std::int64_t first = 0; first < rows; first += most) {
      const std::int64_t count = std::min(most, rows - first);
      HeadChunk c = chunk_at(t, first, count, packed, transposed ? packed_transposed : nullptr);
      c.logits = first == 0 && gradient ? kept + part.first * count : passing;
      c.label_logits = label_logits.data() + first, c.log_sums = log_sums.data() + first;
      c.parts = some_of(stats, first * panels, count * panels), c.panels = panels;
      c.keeps_exponentials = keeps_exponentials(t, gradient);
      c.logit_sums = some_of(logit_sums, first * panels, count * panels);
      c.squares = some_of(squares, first * panels, count * panels);
      visit(first, c);
    }
  };
  auto open = [&](std::size_t k, bool want) {
    HeadParts::Rows some = head.open(k, want);
    return HeadPart{head.starts[k], some.values, some.gradient};
  };
  const std::size_t parts = head.starts.size() - 1;
  for (std::size_t k = 0; k < parts; ++k) {
    const HeadPart part = open(k, false);
    each_chunk(part, false, [&](std::int64_t, const HeadChunk& c) { logits_and_stats(c, part, t.softcap); });
  }
  log_sums_of(stats, panels, log_sums);
  add_log_squares(stats, squares, panels, log_sums, t.rows.log_squares);
  for (std::size_t k = 0; gradient && k < parts; ++k) {
    const HeadPart part = open(k, true);
    each_chunk(part, !part.gradient.empty(), [&](std::int64_t first, const HeadChunk& c) {
      if (first > 0) logits_and_stats(c, part, t.softcap);
      gradient_of_logits(c, part, t.softcap, vocabulary, Write::add);
      gemm_nn_panels(c.logits, c.hidden.count(), kHeadPanel, part.values, t.dhidden.slice(first, c.hidden.count()),
                     k > 0 ? Write::add : Write::set);
    });
    head.close(k);
  }
  add_extra(t.rows.extra, log_sums, label_logits.data(), logit_sums, panels, vocabulary);
  return add_losses(0, log_sums, label_logits.data(), t.rows.losses.data());
}

}  // namespace dml::kernels
