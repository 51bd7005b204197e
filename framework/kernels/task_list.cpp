#include "kernels/task_list.h"

#include <vector>

namespace dml::kernels {

std::span<std::int64_t> tile_totals(std::int64_t entries) {
  thread_local std::vector<std::int64_t> totals;
  if (std::ssize(totals) < entries) totals.resize(static_cast<std::size_t>(entries));
  return {totals.data(), static_cast<std::size_t>(entries)};
}

}  // namespace dml::kernels
