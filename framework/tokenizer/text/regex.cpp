#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/text/regex.h"

#include <pcre2.h>

#include <algorithm>
#include <chrono>

#include "core/error.h"
#include "core/utf8.h"

namespace dml {
namespace {

constexpr std::size_t kMaxPattern = 4 << 10;
constexpr std::uint32_t kMatchLimit = 1'000'000, kDepthLimit = 100'000, kHeapLimitKb = 32 << 10;
// A search looks at so many starting places at a time and checks the clock in between: a pattern that is quadratic in
// the text stops, too.
constexpr std::size_t kWindow = 1024;
constexpr std::chrono::milliseconds kSearchBudget{5000};

// \s means White_Space to Oniguruma (PCRE2's has U+180E, too), \w Unicode words: with marks, and with ² ³ ¹ ¼ ½ ¾.
constexpr std::string_view kWordSet = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";

std::string translate(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      char e = pattern[++i];
      if (e == 's') out += "\\p{White_Space}";
      else if (e == 'S') out += "\\P{White_Space}";
      else if (e == 'w') out.append(in_class ? "" : "[").append(kWordSet).append(in_class ? "" : "]");
      else if (e == 'W' && !in_class) out.append("[^").append(kWordSet).append("]");
      else if (e == 'h') out += in_class ? "0-9a-fA-F" : "[0-9a-fA-F]";
      else (out += '\\') += e;
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

std::string shown(std::string_view pattern) {
  return escape_controls(pattern.substr(0, 60)) + (pattern.size() > 60 ? "…" : "");
}

}  // namespace

struct Regex::Compiled {
  std::string pattern, where;
  pcre2_code* code = nullptr;
  pcre2_match_context* limits = nullptr;
  ~Compiled() {
    pcre2_code_free(code);
    pcre2_match_context_free(limits);
  }
};

Regex::Regex(std::string_view pattern, std::string_view where) : compiled_(std::make_unique<Compiled>()) {
  if (pattern.size() > kMaxPattern)
    throw UserError("{}: the regular expression has {} bytes, the limit is {}", where, pattern.size(), kMaxPattern);
  compiled_->pattern = pattern;
  compiled_->where = where;
  std::string text = translate(pattern);
  int error = 0;
  PCRE2_SIZE at = 0;
  compiled_->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_USE_OFFSET_LIMIT | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr);
  if (!compiled_->code) {
    PCRE2_UCHAR message[160] = {};
    pcre2_get_error_message(error, message, sizeof message);
    throw UserError("{}: regular expression '{}': {}", where, shown(pattern), reinterpret_cast<const char*>(message));
  }
  pcre2_jit_compile(compiled_->code, PCRE2_JIT_COMPLETE);  // without JIT it is slower, nothing else
  compiled_->limits = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(compiled_->limits, kMatchLimit);
  pcre2_set_depth_limit(compiled_->limits, kDepthLimit);
  pcre2_set_heap_limit(compiled_->limits, kHeapLimitKb);
}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

void Regex::find_all(std::string_view text, std::vector<ByteRange>& matches) const {
  matches.clear();
  std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> data(
      pcre2_match_data_create_from_pattern(compiled_->code, nullptr), pcre2_match_data_free);
  std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context*)> context(
      pcre2_match_context_copy(compiled_->limits), pcre2_match_context_free);
  auto deadline = std::chrono::steady_clock::now() + kSearchBudget + std::chrono::milliseconds(text.size() >> 10);
  auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t start = 0, checked = 0;
  while (start < text.size()) {
    std::size_t limit = std::min(start + kWindow, text.size());
    pcre2_set_offset_limit(context.get(), limit);
    int rc = pcre2_match(compiled_->code, subject, text.size(), start, PCRE2_NO_UTF_CHECK, data.get(), context.get());
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH)
      throw UserError("{}: regular expression '{}' needs too many steps on a text of {} bytes", compiled_->where,
                      shown(compiled_->pattern), text.size());
    if (start - checked >= kWindow || rc < 0) {
      checked = start;
      if (std::chrono::steady_clock::now() > deadline)
        throw UserError("{}: regular expression '{}' takes too long on a text of {} bytes", compiled_->where,
                        shown(compiled_->pattern), text.size());
    }
    auto next_char = [&](std::size_t i) {
      do ++i;
      while (i < text.size() && (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80);
      return i;
    };
    if (rc < 0) {
      start = limit;
      while (start < text.size() && (static_cast<unsigned char>(text[start]) & 0xc0) == 0x80) ++start;
      if (limit == text.size()) break;
      continue;
    }
    const PCRE2_SIZE* found = pcre2_get_ovector_pointer(data.get());
    if (found[1] > found[0]) {
      matches.push_back({static_cast<std::uint32_t>(found[0]), static_cast<std::uint32_t>(found[1])});
      start = found[1];
    } else {
      start = next_char(found[1]);
    }
  }
}

std::string regex_escape(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x80 && !std::isalnum(static_cast<unsigned char>(c))) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace dml
