// The clock that measures durations, and the time of day.
#pragma once

#include <chrono>

namespace dml {

/// Monotonic: changes of the time of day do not affect it.
using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Seconds since 1970, UTC.
inline double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace dml
