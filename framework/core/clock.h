// The clock by which stretches of time are measured: it never goes backwards, whatever is done to the time of day.
#pragma once

#include <chrono>

namespace dml {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace dml
