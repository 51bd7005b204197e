#include "train/finite_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/elementwise.h"

namespace dml {

FiniteState::FiniteState(DistributionStrategy& strategy, const StateLayout& layout) {
  for (auto list : {strategy.shards(), strategy.whole_states()})
    for (const Shard& s : list) {
      if (const auto values = s.value_bytes(); !values.empty())
        ranges_.push_back({"", s.parameter, values, s.value.empty() ? DType::bf16 : DType::f32});
      if (s.state.empty()) continue;
      for (const StateTensor& t : layout.tensors(*s.parameter, s.size)) {
        if (t.dtype == DType::u8) continue;  // every bit pattern of a code is a number
        const auto bytes = static_cast<std::size_t>(t.entries(s.size) * t.width());
        ranges_.push_back(
            {t.name, s.parameter, std::as_bytes(s.state).subspan(static_cast<std::size_t>(t.offset), bytes), t.dtype});
      }
    }
}

std::int64_t FiniteState::first_nonfinite(const Range& s) {
  if (s.dtype == DType::f32) {
    const auto* floats = reinterpret_cast<const float*>(s.bytes.data());
    return kernels::first_not_finite(std::span(floats, s.bytes.size() / sizeof(float)));
  }
  if (s.dtype == DType::bf16) {
    const auto* halves = reinterpret_cast<const bf16*>(s.bytes.data());
    return kernels::first_not_finite(std::span(halves, s.bytes.size() / sizeof(bf16)));
  }
  for (std::size_t at = 0; at + sizeof(double) <= s.bytes.size(); at += sizeof(double)) {
    double x;
    std::memcpy(&x, s.bytes.data() + at, sizeof x);
    if (!std::isfinite(x)) return static_cast<std::int64_t>(at / sizeof x);
  }
  return -1;
}

bool FiniteState::finite() const {
  return std::ranges::all_of(ranges_, [](const Range& s) { return first_nonfinite(s) < 0; });
}

std::string FiniteState::damage() const {
  for (const Range& s : ranges_)
    if (const std::int64_t bad = first_nonfinite(s); bad >= 0)
      return fmt::format("{} of {}, element {}", s.name.empty() ? "the value" : "optimizer state '" + s.name + "'",
                         s.parameter->name, bad);
  return "";
}

}  // namespace dml
