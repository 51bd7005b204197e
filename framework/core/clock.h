// The clock that measures durations. It is monotonic: changes of the time of day do not affect it.
#pragma once

#include <chrono>

namespace dml {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace dml
