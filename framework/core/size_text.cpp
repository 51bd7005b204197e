#include "core/size_text.h"

#include <fmt/format.h>

namespace dml {

std::string size_text(std::uint64_t bytes) {
  const double kb = static_cast<double>(bytes) / 1e3, mb = kb / 1e3;
  if (bytes < 1000) return fmt::format("{} B", bytes);
  if (kb < 999.5) return fmt::format("{:.0f} kB", kb);
  if (mb < 9.95) return fmt::format("{:.1f} MB", mb);
  return mb < 999.5 ? fmt::format("{:.0f} MB", mb) : fmt::format("{:.1f} GB", mb / 1e3);
}

}  // namespace dml
