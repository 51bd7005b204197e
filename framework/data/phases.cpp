#include "data/phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace dml {

PhaseSeconds& PhaseSeconds::operator+=(const PhaseSeconds& other) {
  for (std::size_t i = 0; i < kPhases; ++i) seconds_[i] += other.seconds_[i];
  return *this;
}

double PhaseSeconds::total() const { return std::accumulate(seconds_.begin(), seconds_.end(), 0.0); }

std::string PhaseSeconds::shares() const {
  static constexpr const char* kNames[kPhases] = {"digests",    "reading",           "JSON",    "templates",
                                                  "tokenizing", "masks and lengths", "writing", "order"};
  std::vector<std::pair<double, const char*>> rows;
  for (std::size_t i = 0; i < kPhases; ++i) rows.emplace_back(100 * seconds_[i] / std::max(total(), 1e-9), kNames[i]);
  std::sort(rows.begin(), rows.end(), [](auto& a, auto& b) { return a.first > b.first; });
  std::string out;
  for (auto& [percent, name] : rows)
    if (percent >= 0.5) out += fmt::format("{}{} {:.1f} %", out.empty() ? "" : ", ", name, percent);
  return out;
}

}  // namespace dml
