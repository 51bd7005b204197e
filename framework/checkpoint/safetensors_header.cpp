#include "checkpoint/safetensors_header.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "core/shown.h"
#include "core/utf8.h"

namespace dml {
namespace {

class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& source, SafetensorsHeader& out)
      : text_(text), source_(source), out_(out) {}

  void read() {
    if (text_.empty() || text_[0] != '{') fail("a header begins with '{{'");
    if (auto at = find_invalid_utf8(text_); at != std::string_view::npos) {
      at_ = at;
      fail("not UTF-8");
    }
    bool have_metadata = false;
    members([&](std::string_view key) {
      if (key == "__metadata__") {
        if (have_metadata) fail("'__metadata__' is given twice");
        have_metadata = true;
        return read_metadata();
      }
      if (out_.entries.size() >= SafetensorsHeader::kMaxEntries)
        fail("more than {} tensors", SafetensorsHeader::kMaxEntries);
      read_entry(key);
    });
    skip_space();
    if (at_ != text_.size()) fail("unexpected data after the header's closing brace");
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    throw UserError("{}: safetensors header, byte {}: {}", source_, at_,
                    fmt::format(text, std::forward<Args>(args)...));
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
      ++at_;
  }
  bool next_is(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (next_is(c)) return;
    if (at_ >= text_.size()) fail("ends where '{}' is expected", c);
    fail("expected '{}'", c);
  }

  /// Parses "{" key ":" value, … "}"; calls `value` after each colon.
  template <class F>
  void members(F value) {
    expect('{');
    if (next_is('}')) return;
    do {
      std::string_view key = read_string();
      expect(':');
      value(key);
    } while (next_is(','));
    expect('}');
  }

  unsigned hex4() {
    if (text_.size() - at_ < 4) fail("text is cut off");
    unsigned v = 0;
    for (int i = 0; i < 4; ++i) {
      char c = text_[at_++];
      unsigned digit = c >= '0' && c <= '9'   ? unsigned(c - '0')
                       : c >= 'a' && c <= 'f' ? unsigned(c - 'a' + 10)
                       : c >= 'A' && c <= 'F' ? unsigned(c - 'A' + 10)
                                              : 16u;
      if (digit == 16) fail("\\u needs four hex digits");
      v = v * 16 + digit;
    }
    return v;
  }

  void unescape(std::string& out) {
    char c = at_ < text_.size() ? text_[at_++] : '\0';
    switch (c) {
      case '"':
      case '\\':
      case '/':
        out += c;
        return;
      case 'b':
        out += '\b';
        return;
      case 'f':
        out += '\f';
        return;
      case 'n':
        out += '\n';
        return;
      case 'r':
        out += '\r';
        return;
      case 't':
        out += '\t';
        return;
      case 'u':
        break;
      default:
        fail("unknown escape in a string");
    }
    char32_t code = hex4();
    if (code >= 0xD800 && code < 0xDC00) {
      if (text_.substr(at_, 2) != "\\u") fail("unpaired surrogate");
      at_ += 2;
      char32_t low = hex4();
      if (low < 0xDC00 || low > 0xDFFF) fail("unpaired surrogate");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code < 0xE000) {
      fail("unpaired surrogate");
    }
    append_utf8(out, code);
  }

  std::string_view read_string() {
    expect('"');
    std::size_t start = at_;
    std::string* copy = nullptr;
    while (true) {
      if (at_ >= text_.size()) fail("text is cut off");
      char c = text_[at_];
      if (static_cast<unsigned char>(c) < 0x20) fail("control character in a string");
      if (c == '"') break;
      if (c == '\\') {
        if (!copy) copy = &out_.unescaped.emplace_back(text_.substr(start, at_ - start));
        ++at_;
        unescape(*copy);
        continue;
      }
      if (copy) copy->push_back(c);
      ++at_;
    }
    std::size_t end = at_++;
    return copy ? std::string_view(*copy) : text_.substr(start, end - start);
  }

  /// Parses digits only: no sign, point, exponent or leading zero.
  std::uint64_t read_number() {
    skip_space();
    std::size_t start = at_;
    std::uint64_t v = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      auto digit = static_cast<std::uint64_t>(text_[at_] - '0');
      if (__builtin_mul_overflow(v, std::uint64_t{10}, &v) || __builtin_add_overflow(v, digit, &v))
        fail("number is too large");
      ++at_;
    }
    bool more = at_ < text_.size() && (text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E');
    if (start == at_ || more || (text_[start] == '0' && at_ - start > 1)) fail("expected a non-negative integer");
    return v;
  }

  void read_metadata() {
    members([&](std::string_view key) {
      for (auto& [k, v] : out_.metadata)
        if (k == key) fail("metadata '{}' is given twice", shown(key));
      if (out_.metadata.size() >= 4096) fail("more than 4096 entries of metadata");
      std::string name(key);
      out_.metadata.emplace_back(std::move(name), read_string());
    });
  }

  void read_entry(std::string_view name) {
    if (name.empty() || name.size() > SafetensorsHeader::kMaxName)
      fail("a tensor's name has 1 to {} bytes, this one {}", SafetensorsHeader::kMaxName, name.size());
    for (char c : name)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) fail("control character in tensor name '{}'", shown(name));
    SafetensorsHeader::Entry e{name, 0, 0, static_cast<std::uint32_t>(out_.dims.size()), 0, DType::f32};
    bool have_dtype = false, have_shape = false, have_offsets = false;
    auto once = [&](bool& have, const char* key) {
      if (have) fail("tensor '{}': '{}' is given twice", shown(name), key);
      have = true;
    };
    members([&](std::string_view key) {
      if (key == "dtype") {
        once(have_dtype, "dtype");
        std::string_view text = read_string();
        auto dtype = dtype_from_safetensors(text);
        if (!dtype) fail("tensor '{}': unknown dtype '{}'", shown(name), shown(text));
        e.dtype = *dtype;
      } else if (key == "shape") {
        once(have_shape, "shape");
        read_shape(name, e);
      } else if (key == "data_offsets") {
        once(have_offsets, "data_offsets");
        expect('[');
        e.begin = read_number();
        expect(',');
        e.end = read_number();
        expect(']');
      } else {
        fail("tensor '{}': unknown field '{}'", shown(name), shown(key));
      }
    });
    if (!have_dtype || !have_shape || !have_offsets)
      fail("tensor '{}' has no {}", shown(name), !have_dtype ? "dtype" : !have_shape ? "shape" : "data_offsets");
    check_size(e);
    out_.entries.push_back(e);
  }

  void read_shape(std::string_view name, SafetensorsHeader::Entry& e) {
    expect('[');
    if (next_is(']')) return;
    do {
      if (e.rank == SafetensorsHeader::kMaxRank)
        fail("tensor '{}' has more than {} dimensions", shown(name), SafetensorsHeader::kMaxRank);
      std::uint64_t d = read_number();
      if (d > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        fail("tensor '{}': dimension {} is too large", shown(name), d);
      out_.dims.push_back(static_cast<std::int64_t>(d));
      ++e.rank;
    } while (next_is(','));
    expect(']');
  }

  void check_size(const SafetensorsHeader::Entry& e) {
    std::uint64_t bits = static_cast<std::uint64_t>(dtype_bits(e.dtype));
    for (std::int64_t d : out_.shape(e))
      if (__builtin_mul_overflow(bits, static_cast<std::uint64_t>(d), &bits))
        fail("tensor '{}': the product of its shape [{}] overflows", shown(e.name), fmt::join(out_.shape(e), ", "));
    if (e.begin > e.end) fail("tensor '{}': data_offsets [{}, {}] run backwards", shown(e.name), e.begin, e.end);
    if (bits % 8 != 0 || e.end - e.begin != bits / 8)
      fail("tensor '{}': {} of shape [{}] takes {} bits, data_offsets [{}, {}] hold {} bytes", shown(e.name),
           safetensors_name(e.dtype), fmt::join(out_.shape(e), ", "), bits, e.begin, e.end, e.end - e.begin);
  }

  std::string_view text_;
  const std::string& source_;
  SafetensorsHeader& out_;
  std::size_t at_ = 0;
};

/// Checks that the ranges, in order, are contiguous, start at 0 and end at the end of the file.
void check_cover(const SafetensorsHeader& header, std::uint64_t data_bytes, const std::string& source) {
  std::uint64_t cursor = 0;
  for (auto& e : header.entries) {
    if (e.begin != cursor)
      throw UserError("{}: tensor '{}' begins at byte {} of the data, expected {} ({})", source, shown(e.name), e.begin,
                      cursor, e.begin < cursor ? "it overlaps another" : "a hole");
    if (e.end > data_bytes)
      throw UserError("{}: tensor '{}' ends at byte {} of the data, the file has {}; it is cut short", source,
                      shown(e.name), e.end, data_bytes);
    cursor = e.end;
  }
  if (cursor != data_bytes)
    throw UserError("{}: {} bytes after the last tensor belong to no tensor", source, data_bytes - cursor);
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_bytes, const std::string& source) {
  SafetensorsHeader out;
  HeaderReader(text, source, out).read();
  std::ranges::sort(out.entries, {}, [](auto& e) { return std::pair(e.begin, e.end); });
  check_cover(out, data_bytes, source);
  std::ranges::sort(out.entries, {}, [](auto& e) { return e.name; });
  auto twice = std::ranges::adjacent_find(out.entries, {}, [](auto& e) { return e.name; });
  if (twice != out.entries.end()) throw UserError("{}: tensor '{}' occurs twice", source, shown(twice->name));
  return out;
}

}  // namespace dml
