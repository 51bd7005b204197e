#include "model/trimmed_batch.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"

namespace dml {

Labeled labeled_rows(const PackedBatch& batch, std::int64_t count, Arena& arena) {
  std::int64_t i = 0;
  Labeled out{arena.take<std::int32_t>(count), arena.take<Token>(count)};
  if (dry_run()) return out;
  for (std::int64_t t = 0; t < batch.size(); ++t)
    if (batch.labels[t] != kIgnore) {
      out.rows[i] = static_cast<std::int32_t>(t);
      out.labels[i++] = batch.labels[t];
    }
  return out;
}

namespace {

// Iterates over the documents that remain in a trimmed batch.
class Visited {
 public:
  Visited(const PackedBatch& given, Trim how)
      : given_(given),
        every_token_(how == Trim::every_token),
        once_(how == Trim::shared_prefixes && !given.shared.empty()) {}

  struct Document {
    std::size_t number, first;
    std::int32_t rows, shared;  // rows that remain; the first `shared` of them are those of the previous document
  };
  template <class F>
  void each(F f) const {
    std::int32_t common = 0, before = 0;  // tokens shared with the last remaining document, and its rows
    for (std::int64_t d = 0; d < given_.documents(); ++d) {
      const auto i = static_cast<std::size_t>(d);
      const std::int32_t first = given_.starts[i], whole = given_.starts[i + 1] - first;
      const auto rows = every_token_ ? whole : static_cast<std::int32_t>(given_.labeled_length(d));
      if (once_) common = std::min(common, given_.shared[i]);
      if (rows == 0) continue;
      std::int32_t shared = std::min(common, before);
      for (std::int32_t t = 0; t < shared; ++t)
        if (given_.labels[static_cast<std::size_t>(first + t)] != kIgnore) shared = t;
      f(Document{i, static_cast<std::size_t>(first), rows, shared});
      common = once_ ? whole : 0;
      before = rows;
    }
  }

 private:
  const PackedBatch& given_;
  bool every_token_, once_;
};

}  // namespace

TrimmedBatch trimmed(const PackedBatch& given, Arena& arena, Trim how) {
  auto tokens = arena.take<Token>(given.size()), labels = arena.take<Token>(given.size());
  auto positions = arena.take<std::int32_t>(given.size()), starts = arena.take<std::int32_t>(given.documents() + 1);
  auto documents = arena.take<std::int32_t>(given.documents());
  const bool once = how == Trim::shared_prefixes && !given.shared.empty();
  auto rows = arena.take<std::int32_t>(once ? given.size() : 0),
       firsts = arena.take<std::int32_t>(once ? given.size() : 0);
  auto seen_starts = arena.take<std::int32_t>(once ? given.documents() + 1 : 0);
  if (dry_run_bounds()) return {given, documents, {rows, firsts, seen_starts}};
  const Visited visited(given, how);
  std::size_t size = 0, seen = 0, count = 0;
  if (!dry_run()) starts[0] = 0;
  if (!dry_run() && once) seen_starts[0] = 0;
  visited.each([&](const Visited::Document& d) {
    const auto shared = static_cast<std::size_t>(d.shared), all = static_cast<std::size_t>(d.rows), own = all - shared;
    if (!dry_run()) {
      std::ranges::copy(given.tokens.subspan(d.first + shared, own), &tokens[size]);
      std::ranges::copy(given.labels.subspan(d.first + shared, own), &labels[size]);
      std::ranges::copy(given.positions.subspan(d.first + shared, own), &positions[size]);
      documents[count] = static_cast<std::int32_t>(d.number);
      starts[count + 1] = static_cast<std::int32_t>(size + own);
    }
    if (!dry_run() && once) {
      for (std::size_t t = 0; t < all; ++t)  // the shared rows are the first rows of the previous document
        rows[seen + t] = t < shared ? rows[static_cast<std::size_t>(seen_starts[count - 1]) + t]
                                    : static_cast<std::int32_t>(size + t - shared);
      for (std::size_t t = shared; t < all; ++t) firsts[size + t - shared] = static_cast<std::int32_t>(seen + t);
      seen_starts[count + 1] = static_cast<std::int32_t>(seen + all);
    }
    size += own, seen += all, ++count;
  });
  TrimmedBatch out{{given.tokens.first(size), given.labels.first(size), given.positions.first(size),
                    given.starts.first(std::min(count + 1, given.starts.size()))},
                   documents.first(count)};
  if (!dry_run()) out.batch = {tokens.first(size), labels.first(size), positions.first(size), starts.first(count + 1)};
  if (seen > size) out.shared = {rows.first(seen), firsts.first(size), seen_starts.first(count + 1)};
  return out;
}

std::span<RopeDocument> rope_documents(const PackedBatch& given, const TrimmedBatch& trimmed_batch, Arena& arena) {
  auto out = arena.take<RopeDocument>(given.documents());
  if (dry_run()) return out;
  for (std::int64_t i = 0; i < trimmed_batch.batch.documents(); ++i) {
    const auto kept = static_cast<std::size_t>(i), d = static_cast<std::size_t>(trimmed_batch.documents[kept]);
    const std::int64_t first = trimmed_batch.batch.starts[kept];
    out[kept] = {first, trimmed_batch.batch.starts[kept + 1] - first, given.starts[d + 1] - given.starts[d]};
  }
  return out.first(static_cast<std::size_t>(trimmed_batch.batch.documents()));
}

void add_noise(double alpha, const Random& random, const PackedBatch& given, const TrimmedBatch& trimmed_batch, Mat x) {
  parallel_for(trimmed_batch.batch.documents(), [&](std::int64_t i) {
    const auto kept = static_cast<std::size_t>(i), d = static_cast<std::size_t>(trimmed_batch.documents[kept]);
    const std::int64_t length = given.starts[d + 1] - given.starts[d];
    const std::int64_t first = trimmed_batch.batch.starts[kept] * x.cols,
                       last = trimmed_batch.batch.starts[kept + 1] * x.cols;
    const std::int64_t origin = given.starts[d] * x.cols - first;
    const auto size = static_cast<float>(alpha / std::sqrt(static_cast<double>(length * x.cols)));
    for (std::int64_t j = first; j < last; ++j)
      x.data[j] += (2 * random.uniform(static_cast<std::uint64_t>(origin + j)) - 1) * size;
  });
}

}  // namespace dml
