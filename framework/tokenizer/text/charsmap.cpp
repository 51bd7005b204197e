#include "tokenizer/text/charsmap.h"

#include <cstring>

#include "core/error.h"

namespace dml {
namespace {

// The fields of a Darts unit.
bool has_leaf(std::uint32_t unit) { return (unit >> 8) & 1; }
std::uint32_t value(std::uint32_t unit) { return unit & 0x7fffffffu; }
std::uint32_t label(std::uint32_t unit) { return unit & 0x800000ffu; }
std::size_t offset(std::uint32_t unit) { return static_cast<std::size_t>(unit >> 10) << ((unit & 0x200u) >> 6); }

}  // namespace

Charsmap::Charsmap(std::string_view blob, std::string_view where) {
  if (blob.empty()) return;
  auto fail = [&](std::string_view what) {
    throw UserError("{}: the precompiled character map is damaged: {}", where, what);
  };
  std::uint32_t bytes = 0;
  if (blob.size() < 4) fail("shorter than its header");
  std::memcpy(&bytes, blob.data(), 4);
  if (bytes % 4 != 0 || bytes == 0 || bytes > blob.size() - 4) fail("the size of its trie is wrong");
  units_.resize(bytes / 4);
  std::memcpy(units_.data(), blob.data() + 4, bytes);
  block_ = blob.substr(4 + bytes);
  if (block_.empty() || block_.back() != '\0') fail("its replacement strings are not terminated");
  // Checks every reachable node once (some maps share suffixes of keys): it must be in range, and its text inside the
  // block.
  std::vector<bool> seen(units_.size());
  std::vector<std::size_t> open = {offset(units_[0])};
  while (!open.empty()) {
    std::size_t node = open.back();
    open.pop_back();
    for (std::uint32_t c = 1; c < 256; ++c) {
      std::size_t next = node ^ c;
      if (next >= units_.size() || label(units_[next]) != c) continue;
      if (seen[next]) continue;
      seen[next] = true;
      std::size_t child = next ^ offset(units_[next]);
      if (has_leaf(units_[next]) && (child >= units_.size() || value(units_[child]) >= block_.size()))
        fail("a replacement string is out of range");
      open.push_back(child);
    }
  }
}

Charsmap::Match Charsmap::find(std::string_view text, bool shortest) const {
  Match match;
  if (units_.empty()) return match;
  std::size_t node = offset(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto c = static_cast<unsigned char>(text[i]);
    node ^= c;
    if (c == 0 || node >= units_.size() || label(units_[node]) != c) break;
    std::uint32_t unit = units_[node];
    node ^= offset(unit);
    if (has_leaf(unit)) {
      match = {i + 1, std::string_view(block_.c_str() + value(units_[node]))};
      if (shortest) break;
    }
  }
  return match;
}

}  // namespace dml
