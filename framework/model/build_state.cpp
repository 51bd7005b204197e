#include "model/build_state.h"

#include <algorithm>

#include "core/parallel.h"
#include "core/random.h"
#include "model/adapter_init.h"

namespace dml {

using kernels::Weight;

std::string shape_of(std::span<const std::int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

void read_values(const StoredTensor& t, std::int64_t rows, std::int64_t cols, float* out) {
  constexpr std::int64_t kValuesPerTask = 1 << 16;
  Weight w = t.as_matrix(rows, cols);
  parallel_ranges(rows, std::max<std::int64_t>(1, kValuesPerTask / cols), [&](std::int64_t first, std::int64_t last) {
    kernels::unpack(w, first, last - first, 0, cols, out + first * cols);
  });
}

void TensorInit::values(std::int64_t first, std::int64_t last, float* out) const {
  const std::int64_t rows = weight.tensor_rows, cols = weight.cols;
  if (!stored) {
    const std::span to(out, static_cast<std::size_t>(last - first));
    if (weight.vector) std::ranges::fill(to, weight.start ? *weight.start : weight.bias ? 0 : norm_weight);
    else stream_of(seed, Purpose::init, weight.tensor).normals(static_cast<std::uint64_t>(first), to, init_range);
  } else if (weight.reordered() && !stored->transposed) {
    // Reads one expert at a time, of those in the range.
    const StoredOrder order = weight.order();
    const std::int64_t size = order.rows * order.cols;
    StoredOrder one = order;
    one.experts = 1;
    std::vector<float> all(static_cast<std::size_t>(size));
    for (std::int64_t e = first / size; e * size < last; ++e) {
      const std::int64_t begin = std::max(first, e * size), end = std::min(last, (e + 1) * size);
      kernels::unpack(stored->as_matrix(order.experts, size), e, 1, 0, size, all.data());
      for (std::int64_t i = begin; i < end; ++i)
        out[i - first] = all[static_cast<std::size_t>(one.place(i - e * size))];
    }
  } else if (first == 0 && last == rows * cols) {
    read_values(*stored, rows, cols, out);
  } else {
    kernels::unpack(stored->as_matrix(1, rows * cols), 0, 1, first, last - first, out);
  }
}

std::optional<StoredTensor> BuildState::find(const WeightName& w) {
  if (!source) return std::nullopt;
  auto t = source(w.tensor);
  if (!t && plan.unties_head && w.role == WeightRole::head) t = source(embedding_and_head(spec)[0].tensor);
  if (!t) {
    if (!is_new_head(w, spec)) problems.add(fmt::format("{}: tensor '{}' is missing", source_name, w.tensor));
  } else if (auto wanted = w.tensor_shape(); t->shape != wanted) {
    problems.add(fmt::format("{}: tensor '{}' has shape {}, config.json asks for {}", source_name, w.tensor,
                             shape_of(t->shape), shape_of(wanted)));
    t.reset();
  }
  return t;
}

TensorInit BuildState::init_of(const WeightName& w, const std::optional<StoredTensor>& t) const {
  return {w, t, training.seed, static_cast<float>(spec.init_range), 1 - static_cast<float>(spec.norm.offset)};
}
void BuildState::tensor_values(const WeightName& w, const std::optional<StoredTensor>& t, float* out) const {
  init_of(w, t).values(0, w.tensor_rows * w.cols, out);
}

}  // namespace dml
