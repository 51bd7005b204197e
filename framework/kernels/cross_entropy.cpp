#include "kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/gemm.h"
#include "kernels/simd/loops.h"

// A chunk's logits are kept (at most 64 MB) and turned into their own gradient in place, so that the vocabulary product is
// done once: three products in all, the least there is.
namespace dml::kernels {
namespace {

constexpr std::int64_t kMostLogits = std::int64_t{16} << 20, kMostRows = 512, kFewestRows = 32;

std::int64_t chunk_rows(std::int64_t rows, std::int64_t vocabulary) {
  std::int64_t most = std::clamp(kMostLogits / vocabulary, kFewestRows, kMostRows);
  std::int64_t chunks = std::max<std::int64_t>(1, (rows + most - 1) / most);
  return (rows + chunks - 1) / chunks;
}

}  // namespace

double cross_entropy(ConstMat hidden, const Weight& head, std::span<const Token> labels, float softcap,
                     std::span<float> row_losses, Mat dhidden, Mat dhead, Arena& scratch) {
  const std::int64_t rows = hidden.rows, vocabulary = head.rows;
  DML_CHECK(static_cast<std::int64_t>(labels.size()) == rows && head.cols == hidden.cols);
  DML_CHECK(row_losses.empty() || static_cast<std::int64_t>(row_losses.size()) == rows);
  if (rows == 0) return 0;
  const bool gradient = !dhidden.empty() || !dhead.empty();
  Arena::Scope scope(scratch);
  auto losses = scratch.take<double>(rows);
  const std::int64_t chunk = chunk_rows(rows, vocabulary);
  Mat block = scratch.matrix(chunk, vocabulary);
  for (std::int64_t first = 0; first < rows; first += chunk) {
    std::int64_t count = std::min(chunk, rows - first);
    Mat logits = block.slice(0, count);
    ConstMat h = hidden.slice(first, count);
    gemm_nt(h, head, logits, Write::set);
    parallel_for(count, [&](std::int64_t i) {
      const Loops& loop = loops();
      float* x = logits.row(i);
      auto t = static_cast<std::size_t>(first + i);
      std::int64_t label = labels[t];
      DML_CHECK(label >= 0 && label < vocabulary);
      if (softcap > 0) loop.softcap(x, vocabulary, softcap);
      RowStats stats = loop.row_stats(x, vocabulary);
      double lse = static_cast<double>(stats.max) + std::log(stats.sum);
      float at_label = x[label];
      losses[t] = lse - static_cast<double>(at_label);
      if (!row_losses.empty()) row_losses[t] = static_cast<float>(losses[t]);
      if (!gradient) return;
      loop.softmax_gradient(x, vocabulary, static_cast<float>(lse), softcap);
      float ratio = softcap > 0 ? at_label / softcap : 0;
      x[label] -= 1 - ratio * ratio;
    });
    if (!dhead.empty()) gemm_tn(logits, h, dhead);
    if (!dhidden.empty()) gemm_nn(logits, head, dhidden.slice(first, count), Write::set);
  }
  if (dry_run()) return 0;
  double total = 0;
  for (double loss : losses) total += loss;
  return total;
}

}  // namespace dml::kernels
