// Variables of the environment.
#pragma once

#include <cstdlib>
#include <string>

namespace dml {

/// The value of a variable; "" where it is not set.
inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// The folder of this user's caches; "" where neither XDG_CACHE_HOME nor HOME is set.
inline std::string cache_home() {
  if (std::string cache = environment("XDG_CACHE_HOME"); !cache.empty()) return cache;
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.cache";
}

}  // namespace dml
