#include "data/row_json.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>

#include "core/utf8.h"

namespace dml {
namespace {

constexpr std::ptrdiff_t kMaxKeys = 64;  // object keys; the search for duplicates is linear
constexpr std::size_t kUsualKeys = 8;    // capacity reserved in advance: growing copies the members
constexpr int kWholeDigits = 18;         // digits that always fit into 64 bits

// As end_of_plain(). Sets bits of `high` where a byte before that place, or shortly after it, is not ASCII.
const char* find_special(const char* at, const char* end, unsigned& high) {
#if defined(__SSE2__)
  while (end - at >= 16) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i quote = _mm_cmpeq_epi8(x, _mm_set1_epi8('"')), slash = _mm_cmpeq_epi8(x, _mm_set1_epi8('\\'));
    const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(x, _mm_set1_epi8(0x1f)), x);
    const auto found = static_cast<unsigned>(_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, slash), control)));
    high |= static_cast<unsigned>(_mm_movemask_epi8(x));
    if (found != 0) return at + std::countr_zero(found);
    at += 16;
  }
#endif
  // Eight bytes at a time: a byte of `x - ones` or of `x ^ pattern` has its high bit set where the test holds. A false
  // positive occurs only above a true one, and the loop below checks again.
  constexpr std::uint64_t kOnes = 0x0101010101010101, kHigh = 0x8080808080808080;
  while (end - at >= 8) {
    std::uint64_t x;
    std::memcpy(&x, at, 8);
    const std::uint64_t quote = x ^ (kOnes * '"'), slash = x ^ (kOnes * '\\');
    const std::uint64_t found = ((quote - kOnes) & ~quote) | ((slash - kOnes) & ~slash) | ((x - kOnes * 0x20) & ~x);
    if (found & kHigh) break;
    high |= (x & kHigh) != 0;
    at += 8;
  }
  for (; at < end && *at != '"' && *at != '\\' && static_cast<unsigned char>(*at) >= 0x20; ++at)
    high |= static_cast<unsigned char>(*at) >> 7;
  return at;
}

class RowParser {
 public:
  RowParser(std::string_view text, std::size_t most_values)
      : text_(text), at_(text.data()), end_(text.data() + text.size()), most_values_(most_values) {}

  // The position of the first byte that was not consumed.
  std::size_t place() const {
    const std::size_t bad = find_invalid_utf8(text_);
    return std::min(bad, static_cast<std::size_t>(std::min(at_, end_) - text_.data()));
  }

  // Bytes that are not ASCII are valid in strings only, all of which are checked.
  bool document(Json& out) {
    if (!value(out, 1)) return false;
    skip_blanks();
    return at_ == end_ && (high_ == 0 || find_invalid_utf8(text_) == std::string_view::npos);
  }

 private:
  void skip_blanks() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }
  bool take(char c) {
    skip_blanks();
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  bool word(std::string_view w) {
    if (static_cast<std::size_t>(end_ - at_) < w.size() || std::memcmp(at_, w.data(), w.size()) != 0) return false;
    at_ += w.size();
    return true;
  }

  bool value(Json& out, int depth) {
    skip_blanks();
    if (at_ == end_ || ++values_ > most_values_) return false;
    switch (*at_) {
      case '"': {
        ++at_;
        if (!out.is_string()) out = std::string();
        return string(out.get_ref<std::string&>());
      }
      case '{':
        ++at_;
        return depth <= JsonLimits{}.depth && object(out, depth);
      case '[':
        ++at_;
        return depth <= JsonLimits{}.depth && array(out, depth);
      case 't':
        out = true;
        return word("true");
      case 'f':
        out = false;
        return word("false");
      case 'n':
        out = nullptr;
        return word("null");
      default:
        return number(out);
    }
  }

  bool object(Json& out, int depth) {
    if (!out.is_object()) out = Json::object();
    auto& members = out.get_ref<Json::object_t&>();
    const auto keep = [&](std::ptrdiff_t count) {
      while (std::ssize(members) > count) members.pop_back();
    };
    std::ptrdiff_t count = 0;
    if (!take('}')) {
      members.reserve(kUsualKeys);
      do {
        if (count == kMaxKeys || !take('"') || !string(key_) || !take(':')) return false;
        const auto place = members.begin() + count;
        if (std::any_of(members.begin(), place, [&](auto& member) { return member.first == key_; })) return false;
        if (place == members.end() || place->first != key_) {
          keep(count);
          members.emplace_back(key_, Json());
        }
        if (!value(members.begin()[count++].second, depth + 1)) return false;
      } while (take(','));
      if (!take('}')) return false;
    }
    keep(count);
    return true;
  }

  bool array(Json& out, int depth) {
    if (!out.is_array()) out = Json::array();
    auto& items = out.get_ref<Json::array_t&>();
    std::size_t count = 0;
    if (!take(']')) {
      do {
        if (count == items.size()) items.emplace_back();
        if (!value(items[count++], depth + 1)) return false;
      } while (take(','));
      if (!take(']')) return false;
    }
    items.resize(count);
    return true;
  }

  // Reads a string from after its opening quote to after its closing one. Where the capacity is too small, the distance
  // to the closing quote is reserved, which is enough for the unescaped text.
  bool string(std::string& out) {
    out.clear();
    const char* plain = plain_end(at_);
    while (true) {
      if (out.capacity() - out.size() < static_cast<std::size_t>(plain - at_)) {
        const char* close = plain;
        while (end_ - close >= 2 && *close == '\\') close = plain_end(close + 2);
        out.reserve(out.size() + static_cast<std::size_t>(close - at_));
      }
      out.append(at_, plain);
      at_ = plain + 1;
      if (plain == end_) return false;
      if (*plain == '"') return true;
      if (*plain != '\\' || !escape(out)) return false;
      plain = plain_end(at_);
    }
  }

  bool escape(std::string& out) {
    if (at_ == end_) return false;
    switch (*at_++) {
      case '"':
        out += '"';
        return true;
      case '\\':
        out += '\\';
        return true;
      case '/':
        out += '/';
        return true;
      case 'b':
        out += '\b';
        return true;
      case 'f':
        out += '\f';
        return true;
      case 'n':
        out += '\n';
        return true;
      case 'r':
        out += '\r';
        return true;
      case 't':
        out += '\t';
        return true;
      case 'u':
        break;
      default:
        return false;
    }
    std::uint32_t code = 0, low = 0;
    if (!hex(code) || (code >= 0xdc00 && code <= 0xdfff)) return false;
    if (code >= 0xd800 && code <= 0xdbff) {  // a high surrogate
      if (!word("\\u") || !hex(low) || low < 0xdc00 || low > 0xdfff) return false;
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    append_utf8(out, code);
    return true;
  }

  bool hex(std::uint32_t& code) {
    if (end_ - at_ < 4) return false;
    auto [stop, error] = std::from_chars(at_, at_ + 4, code, 16);
    if (error != std::errc() || stop != at_ + 4) return false;
    at_ = stop;
    return true;
  }

  int digits() {
    const char* from = at_;
    while (at_ < end_ && *at_ >= '0' && *at_ <= '9') ++at_;
    return static_cast<int>(std::min<std::ptrdiff_t>(at_ - from, 1000));
  }

  bool number(Json& out) {
    const char* from = at_;
    const bool negative = *at_ == '-';
    at_ += negative;
    const char* first = at_;
    const int whole = digits();
    if (whole == 0 || (whole > 1 && *first == '0') || whole > kWholeDigits) return false;
    bool real = false;
    if (at_ < end_ && *at_ == '.') {
      ++at_;
      real = true;
      if (digits() == 0) return false;
    }
    if (at_ < end_ && (*at_ == 'e' || *at_ == 'E')) {
      ++at_;
      real = true;
      if (at_ < end_ && (*at_ == '+' || *at_ == '-')) ++at_;
      if (digits() == 0) return false;
    }
    if (real) {
      double number = 0;
      if (std::from_chars(from, at_, number).ec != std::errc()) return false;
      out = number;
    } else if (negative) {
      std::int64_t number = 0;
      std::from_chars(from, at_, number);
      out = number;
    } else {
      std::uint64_t number = 0;
      std::from_chars(from, at_, number);
      out = number;
    }
    return true;
  }

  const char* plain_end(const char* from) { return find_special(from, end_, high_); }

  std::string_view text_;
  const char* at_;
  const char* end_;
  unsigned high_ = 0;  // not 0: some byte may not be ASCII
  std::size_t values_ = 0, most_values_;
  std::string key_;
};

}  // namespace

const char* end_of_plain(const char* at, const char* end) {
  unsigned high = 0;
  return find_special(at, end, high);
}

bool read_row_json(std::string_view text, Json& out, std::size_t most_values, std::size_t* stopped) {
  RowParser parser(text, most_values);
  const bool taken = parser.document(out);
  if (!taken && stopped) *stopped = parser.place();
  return taken;
}

std::string shortened_row(std::string_view text, std::size_t at) {
  constexpr std::size_t kBeginning = 64, kAround = 256;
  std::string out;
  bool inside = false;
  for (std::size_t i = 0, n = 1, kept = 0; i < text.size(); i += n) {
    const std::string_view rest = text.substr(i);
    const bool quote = rest[0] == '"';
    n = 1;
    if (quote) {
      inside = !inside;
      kept = 0;
    } else if (inside && rest[0] == '\\') {  // an escape as a whole, a pair of surrogates included
      n = !rest.substr(1).starts_with('u') ? 2 : rest.size() > 7 && rest[6] == '\\' && rest[7] == 'u' ? 12 : 6;
    } else if (inside && static_cast<unsigned char>(rest[0]) >= 0xc0) {
      n = static_cast<unsigned char>(rest[0]) < 0xe0 ? 2 : static_cast<unsigned char>(rest[0]) < 0xf0 ? 3 : 4;
    }
    const bool around = i + kAround > at && i < at + kAround;
    if (!inside || quote || around || ++kept <= kBeginning) out += rest.substr(0, n);
  }
  return out;
}

}  // namespace dml
