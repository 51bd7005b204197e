// Patterns of file names, as huggingface_hub matches them: fnmatch, where '*' matches '/' as well.
#pragma once

#include <fnmatch.h>

#include <algorithm>
#include <string>
#include <vector>

namespace dml {

inline bool fits(const std::string& pattern, const std::string& path) {
  return fnmatch(pattern.c_str(), path.c_str(), 0) == 0;
}

inline bool fits_any(const std::vector<std::string>& patterns, const std::string& path) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return fits(pattern, path); });
}

}  // namespace dml
