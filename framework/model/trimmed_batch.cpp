#include "model/trimmed_batch.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"

namespace dml {

Labelled labelled_rows(const PackedBatch& batch, std::int64_t count, Arena& arena) {
  std::int64_t i = 0;
  Labelled out{arena.take<std::int32_t>(count), arena.take<Token>(count)};
  if (dry_run()) return out;
  for (std::int64_t t = 0; t < batch.size(); ++t)
    if (batch.labels[t] != kIgnore) {
      out.rows[i] = static_cast<std::int32_t>(t);
      out.labels[i++] = batch.labels[t];
    }
  return out;
}

TrimmedBatch trimmed(const PackedBatch& given, Arena& arena, bool all) {
  auto tokens = arena.take<Token>(given.size()), labels = arena.take<Token>(given.size());
  auto positions = arena.take<std::int32_t>(given.size()), starts = arena.take<std::int32_t>(given.documents() + 1);
  auto documents = arena.take<std::int32_t>(given.documents());
  if (dry_run_bounds()) return {given, documents};
  auto rows_of = [&](std::int64_t d) {
    return all ? given.starts[static_cast<std::size_t>(d) + 1] - given.starts[static_cast<std::size_t>(d)]
               : given.useful(d);
  };
  std::size_t size = 0, count = 0;
  if (dry_run()) {
    for (std::int64_t d = 0; d < given.documents(); ++d)
      if (const std::int64_t rows = rows_of(d); rows > 0) size += static_cast<std::size_t>(rows), ++count;
    return {{given.tokens.first(size), given.labels.first(size), given.positions.first(size),
             given.starts.first(std::min(count + 1, given.starts.size()))},
            documents.first(count)};
  }
  starts[0] = 0;
  for (std::int64_t d = 0; d < given.documents(); ++d) {
    const auto first = static_cast<std::size_t>(given.starts[static_cast<std::size_t>(d)]),
               rows = static_cast<std::size_t>(rows_of(d));
    if (rows == 0) continue;
    std::ranges::copy(given.tokens.subspan(first, rows), &tokens[size]);
    std::ranges::copy(given.labels.subspan(first, rows), &labels[size]);
    std::ranges::copy(given.positions.subspan(first, rows), &positions[size]);
    size += rows;
    documents[count++] = static_cast<std::int32_t>(d);
    starts[count] = static_cast<std::int32_t>(size);
  }
  return {{tokens.first(size), labels.first(size), positions.first(size), starts.first(count + 1)},
          documents.first(count)};
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
