// Time spent in each phase of preparing data, summed over all threads. It is not stored in the prepared folder, whose
// bytes are reproducible.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "core/clock.h"

namespace dml {

enum class Phase { digest, read, json, render, tokenize, mask, write, order };

class PhaseSeconds {
 public:
  PhaseSeconds& operator+=(const PhaseSeconds& other);
  double total() const;
  /// "tokenizing 81 %, JSON 5 %, …": phases of at least half a percent, the longest first.
  std::string shares() const;

 private:
  friend class PhaseClock;
  static constexpr std::size_t kPhases = 8;
  std::array<std::uint64_t, kPhases> ticks_{};
};

/// A stopwatch: starts when it is constructed; lap() adds the time since the last lap to a phase. For one thread. It is
/// read five times per row, so it uses the processor's time-stamp counter where there is one.
class PhaseClock {
 public:
  explicit PhaseClock(PhaseSeconds& seconds) : seconds_(&seconds) {}
  void lap(Phase phase) {
    const std::uint64_t last = std::exchange(last_, now());
    if (last_ > last)
      seconds_->ticks_[static_cast<std::size_t>(phase)] += last_ - last;  // counters of different cores may differ
  }
  /// Discards the time since the last lap, which is counted elsewhere.
  void skip() { last_ = now(); }

  static std::uint64_t now() {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
#endif
  }

 private:
  PhaseSeconds* seconds_;
  std::uint64_t last_ = now();
};

}  // namespace dml
