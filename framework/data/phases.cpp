#include "data/phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace dml {
namespace {

// Converts clock ticks to seconds: the tick count and the time at the start of the program.
struct Beginning {
  Clock::time_point time = Clock::now();
  std::uint64_t ticks = PhaseClock::now();
} const beginning;

double seconds_per_tick() {
  return seconds_since(beginning.time) /
         static_cast<double>(std::max<std::uint64_t>(1, PhaseClock::now() - beginning.ticks));
}

}  // namespace

PhaseSeconds& PhaseSeconds::operator+=(const PhaseSeconds& other) {
  for (std::size_t i = 0; i < kPhases; ++i) ticks_[i] += other.ticks_[i];
  return *this;
}

double PhaseSeconds::total() const { return seconds_per_tick() * std::accumulate(ticks_.begin(), ticks_.end(), 0.0); }

std::string PhaseSeconds::shares() const {
  static constexpr const char* kNames[kPhases] = {"digests",    "reading",           "JSON",    "templates",
                                                  "tokenizing", "masks and lengths", "writing", "order"};
  std::vector<std::pair<double, const char*>> rows;
  const double all = std::max(1.0, std::accumulate(ticks_.begin(), ticks_.end(), 0.0));
  for (std::size_t i = 0; i < kPhases; ++i) rows.emplace_back(100 * static_cast<double>(ticks_[i]) / all, kNames[i]);
  std::sort(rows.begin(), rows.end(), [](auto& a, auto& b) { return a.first > b.first; });
  std::string out;
  for (auto& [percent, name] : rows)
    if (percent >= 0.5) out += fmt::format("{}{} {:.1f} %", out.empty() ? "" : ", ", name, percent);
  return out;
}

}  // namespace dml
