#include "core/shown.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/utf8.h"

namespace dml {

std::string shown(std::string_view text, std::size_t most) {
  std::string_view start = text.substr(0, most);
  if (start.size() < text.size()) start.remove_suffix(incomplete_utf8_tail(start));
  const char* rest = start.size() < text.size() ? "…" : "";
  std::string out;
  while (true) {
    const std::size_t good = std::min(find_invalid_utf8(start), start.size());
    out += escape_controls(start.substr(0, good));
    if (good == start.size()) break;
    out += fmt::format("\\x{:02x}", static_cast<unsigned char>(start[good]));
    start.remove_prefix(good + 1);
  }
  std::ranges::replace(out, '\n', ' ');
  return out + rest;
}

}  // namespace dml
