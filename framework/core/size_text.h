// A size in memory or on disk, as every message and table words it.
#pragma once

#include <cstdint>
#include <string>

namespace dml {

/// "812 B", "12 kB", "1.4 MB", "640 MB", "1.9 GB"; powers of 1000.
std::string size_text(std::uint64_t bytes);

}  // namespace dml
