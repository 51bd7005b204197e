// What preparing data spends its time on, added up over all threads. Kept out of the prepared folder, whose bytes are
// the same on every run.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <string>

namespace dml {

enum class Phase { digest, read, json, render, tokenize, mask, write, order };

class PhaseSeconds {
 public:
  double& operator[](Phase phase) { return seconds_[static_cast<std::size_t>(phase)]; }
  PhaseSeconds& operator+=(const PhaseSeconds& other);
  double total() const;
  /// "tokenizing 81 %, JSON 5 %, …": what took at least half a percent, the longest first.
  std::string shares() const;

 private:
  static constexpr std::size_t kPhases = 8;
  std::array<double, kPhases> seconds_{};
};

/// Runs from its making; lap() gives the time since the last lap to a phase. For one thread.
class PhaseClock {
 public:
  explicit PhaseClock(PhaseSeconds& seconds) : seconds_(&seconds) {}
  void lap(Phase phase) {
    const auto now = std::chrono::steady_clock::now();
    (*seconds_)[phase] += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }
  /// The time since the last lap is counted elsewhere.
  void skip() { last_ = std::chrono::steady_clock::now(); }

 private:
  PhaseSeconds* seconds_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace dml
