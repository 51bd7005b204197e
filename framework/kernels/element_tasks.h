// How elementwise operations are divided over threads.
#pragma once

#include <algorithm>
#include <cstdint>

namespace dml::kernels {

constexpr std::int64_t kTaskElements = 16384;

/// The number of rows of `cols` elements that make a task.
inline std::int64_t rows_per_task(std::int64_t cols) {
  return std::max<std::int64_t>(1, kTaskElements / std::max<std::int64_t>(1, cols));
}

}  // namespace dml::kernels
