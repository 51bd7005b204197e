// Views of 8-bit optimizer state for kernels.
#pragma once

#include "core/rounding.h"
#include "kernels/coded_state.h"
#include "optim/optimizer.h"

namespace dml {

/// Plane number `plane` of `planes` in the 8-bit state of a slice.
inline kernels::CodedState coded(const OptimizerSlice& s, int planes, int plane) {
  auto* bytes = reinterpret_cast<std::uint8_t*>(s.state.data());
  const std::int64_t size = s.size(), blocks = ceil_div(size, StateLayout::kBlock);
  return {{bytes + StateLayout::codes_at(planes, plane, size), s.value.size()},
          {reinterpret_cast<float*>(bytes + StateLayout::scales_at(plane, size)), static_cast<std::size_t>(blocks)}};
}

}  // namespace dml
