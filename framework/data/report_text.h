// Numbers in the lines of a report.
#pragma once

#include "core/error.h"
#include "data/report.h"

namespace dml {

inline std::string examples_of(std::int64_t n) { return counted(n, "example", "examples"); }

inline double percent(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

inline double mean(std::int64_t sum, std::int64_t count) {
  return static_cast<double>(sum) / static_cast<double>(count);
}

}  // namespace dml
