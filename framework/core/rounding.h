// Division and rounding that round up: numbers of tiles, aligned sizes.
#pragma once

#include <cstdint>

namespace dml {

/// a ≥ 0 divided by b > 0, rounded up.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
/// The smallest multiple of `unit` > 0 that is not below a ≥ 0.
constexpr std::int64_t round_up(std::int64_t a, std::int64_t unit) { return ceil_div(a, unit) * unit; }

}  // namespace dml
