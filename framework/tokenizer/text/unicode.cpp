#include "tokenizer/text/unicode.h"

#include <utf8proc.h>

#include <array>
#include <memory>

#include "core/utf8.h"

namespace dml {
namespace {

constexpr char32_t kCodePoints = 0x110000;

bool white_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
         c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

std::uint8_t classify(char32_t c) {
  std::uint8_t out = white_space(c) ? kSpace : 0;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return out | kLetter | kWord;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
      return out | kNumber | kWord;
    case UTF8PROC_CATEGORY_NO:
      return out | kNumber;
    case UTF8PROC_CATEGORY_MN:
      return out | kMark | kWord;
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return out | kWord;
    case UTF8PROC_CATEGORY_PC:
      return out | kPunctuation | kWord;
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return out | kPunctuation;
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
      out |= kControl;
      break;
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SK:
      if (c < 0x80) out |= kAsciiSymbol;
      break;
    case UTF8PROC_CATEGORY_SO:  // circled and squared letters are alphabetic
      if ((c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
          (c >= 0x1f170 && c <= 0x1f189))
        out |= kWord;
      break;
    default:
      break;
  }
  if (c == 0x200c || c == 0x200d) out |= kWord;  // joiners
  return out;
}

struct ByteAlphabet {
  std::array<char32_t, 256> of_byte;
  std::array<std::int16_t, 512> of_char;
  ByteAlphabet() {
    of_char.fill(-1);
    char32_t next = 256;
    for (int b = 0; b < 256; ++b) {
      bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      of_byte[b] = printable ? static_cast<char32_t>(b) : next++;
      of_char[of_byte[b]] = static_cast<std::int16_t>(b);
    }
  }
};
const ByteAlphabet& alphabet() {
  static const ByteAlphabet table;
  return table;
}

}  // namespace

const std::uint8_t* char_classes() {
  static const std::unique_ptr<std::uint8_t[]> table = [] {
    auto t = std::make_unique<std::uint8_t[]>(kCodePoints);
    for (char32_t c = 0; c < kCodePoints; ++c) t[c] = classify(c);
    return t;
  }();
  return table.get();
}

std::string lower_case(char32_t c) {
  std::string out;
  if (c == 0x130) return "i\xcc\x87";
  append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  return out;
}

char32_t upper_case(char32_t c) { return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))); }

char32_t byte_to_char(unsigned char byte) { return alphabet().of_byte[byte]; }
int char_to_byte(char32_t c) { return c < 512 ? alphabet().of_char[c] : -1; }

bool spelling_to_bytes(std::string_view spelling, std::string& bytes) {
  bytes.clear();
  for (std::size_t i = 0; i < spelling.size();) {
    int b = char_to_byte(next_code_point(spelling, i));
    if (b < 0) return false;
    bytes += static_cast<char>(b);
  }
  return true;
}

std::string bytes_to_spelling(std::string_view bytes) {
  std::string out;
  for (char b : bytes) append_utf8(out, byte_to_char(static_cast<unsigned char>(b)));
  return out;
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes.size();) {
    std::size_t start = i;
    char32_t c = next_code_point(bytes, i);
    if (c != 0xFFFD || i - start == 3) {
      out.append(bytes.substr(start, i - start));
      continue;
    }
    // A maximal subpart is a lead byte with as many valid continuation bytes as follow; tries the longest first.
    std::size_t longest = start + 1;
    for (std::size_t end = start + 2; end <= start + 3 && end <= bytes.size(); ++end)
      if (incomplete_utf8_tail(bytes.substr(start, end - start)) == end - start) {
        std::string whole(bytes.substr(start, end - start));  // tests whether it is the beginning of some character
        bool opens = false;
        for (int low : {0x80, 0x90, 0xa0}) {
          std::string trial = whole + static_cast<char>(low);
          if (find_invalid_utf8(trial) == std::string::npos || find_invalid_utf8(trial + "\x80") == std::string::npos)
            opens = true;
        }
        if (opens) longest = end;
      }
    out += "\xef\xbf\xbd";
    i = longest;
  }
  return out;
}

}  // namespace dml
