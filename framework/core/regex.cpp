#define PCRE2_CODE_UNIT_WIDTH 8
#include "core/regex.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/shown.h"
#include "core/utf8.h"
#include "core/virtual_threads.h"

namespace dml {
namespace {

// Limits of one call of PCRE2.
constexpr std::uint32_t kMaxSteps = 1'000'000, kMaxDepth = 100'000, kMaxHeapKb = 32 << 10;
// Number of start positions per call; the time is checked in between, so that patterns of quadratic cost are stopped,
// too.
constexpr std::size_t kWindow = 1024;
constexpr double kSearchSeconds = 5;  // of the processor: other programs do not affect it

// Python's \Z does not match before a final newline; PCRE2 writes it \z.
std::string from_python(std::string_view pattern) {
  std::string out(pattern);
  for (std::size_t i = 0; i + 1 < out.size(); ++i) {
    if (out[i] != '\\') continue;
    ++i;
    if (out[i] == 'Z') out[i] = 'z';
  }
  return out;
}

std::string message_of(int error) {
  PCRE2_UCHAR message[160] = {};
  pcre2_get_error_message(error, message, sizeof message);
  return reinterpret_cast<const char*>(message);
}

/// Returns the compiled pattern, or the library's message with its position.
std::pair<pcre2_code*, std::string> compile(std::string_view pattern) {
  if (pattern.size() > Regex::kMaxPatternBytes)
    return {nullptr, fmt::format("it has {} bytes, the limit is {}", pattern.size(), Regex::kMaxPatternBytes)};
  const std::string translated = from_python(pattern);
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_USE_OFFSET_LIMIT | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr);
  if (code) return {code, ""};
  return {nullptr, fmt::format("character {}: {}", count_characters(pattern.substr(0, at)) + 1, message_of(error))};
}

}  // namespace

struct Regex::Compiled {
  std::string pattern, where;
  pcre2_code* code = nullptr;
  pcre2_match_context* limits = nullptr;

  ~Compiled() {
    pcre2_match_context_free(limits);
    pcre2_code_free(code);
  }
  [[noreturn]] void give_up(std::string_view what, std::size_t bytes) const {
    throw UserError("{}: regular expression '{}' {} on a text of {} bytes", where, pattern, what, bytes);
  }
  /// Throws UserError for an error code of pcre2_match.
  [[noreturn]] void fail(int error, std::size_t bytes) const {
    if (error == PCRE2_ERROR_MATCHLIMIT || error == PCRE2_ERROR_DEPTHLIMIT || error == PCRE2_ERROR_HEAPLIMIT)
      give_up("takes too many steps", bytes);
    give_up(fmt::format("fails ({})", message_of(error)), bytes);
  }
};

namespace {

struct MatchData {
  explicit MatchData(const pcre2_code* code) : data(pcre2_match_data_create_from_pattern(code, nullptr)) {
    DML_CHECK(data);
  }
  ~MatchData() { pcre2_match_data_free(data); }
  MatchData(const MatchData&) = delete;
  MatchData& operator=(const MatchData&) = delete;
  pcre2_match_data* data;
};

std::string_view captured_of(std::string_view text, const PCRE2_SIZE* at, int pairs) {
  if (pairs < 2) return text.substr(at[0], at[1] - at[0]);
  for (int i = 1; i < pairs; ++i)
    if (at[2 * i] != PCRE2_UNSET && at[2 * i + 1] > at[2 * i]) return text.substr(at[2 * i], at[2 * i + 1] - at[2 * i]);
  return "";
}

}  // namespace

Regex::Regex(std::string_view pattern, std::string_view where) : compiled_(std::make_unique<Compiled>()) {
  compiled_->pattern = shown(pattern, 60);
  compiled_->where = where;
  auto [code, why] = compile(pattern);
  if (!code)
    throw UserError("{}: regular expression '{}'{}{}", where, compiled_->pattern,
                    why.starts_with("character") ? ", " : ": ", why);
  compiled_->code = code;
  compiled_->limits = pcre2_match_context_create(nullptr);
  DML_CHECK(compiled_->limits);
  pcre2_set_match_limit(compiled_->limits, kMaxSteps);
  pcre2_set_depth_limit(compiled_->limits, kMaxDepth);
  pcre2_set_heap_limit(compiled_->limits, kMaxHeapKb);
}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

std::string Regex::problem(std::string_view pattern) {
  auto [code, why] = compile(pattern);
  pcre2_code_free(code);
  return why;
}

bool Regex::match(std::string_view text, std::uint32_t anchors) const {
  MatchData data(compiled_->code);
  const int rc = pcre2_match(compiled_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, anchors,
                             data.data, compiled_->limits);
  if (rc < 0 && rc != PCRE2_ERROR_NOMATCH) compiled_->fail(rc, text.size());
  return rc >= 0;
}

bool Regex::matches(std::string_view text) const { return match(text, PCRE2_ANCHORED | PCRE2_ENDANCHORED); }
bool Regex::matches_start(std::string_view text) const { return match(text, PCRE2_ANCHORED); }

std::vector<std::string> Regex::captures(std::string_view text) const {
  std::vector<std::string> out;
  search(text, [&](std::size_t begin, std::size_t end, std::string_view captured) {
    if (begin < end) out.emplace_back(captured);
  });
  return out;
}

std::string Regex::without_matches(std::string_view text) const {
  std::string out;
  std::size_t at = 0;
  search(text, [&](std::size_t begin, std::size_t end, std::string_view) {
    out += text.substr(at, begin - at);
    at = end;
  });
  return out += text.substr(at);
}

void Regex::search(std::string_view text, const Found& found) const {
  MatchData data(compiled_->code);
  std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context*)> context(
      pcre2_match_context_copy(compiled_->limits), pcre2_match_context_free);
  const double last_second = thread_seconds() + kSearchSeconds + static_cast<double>(text.size()) * 1e-6;
  auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  auto skip_inside = [&](std::size_t i) {  // advance to the beginning of a character
    while (i < text.size() && (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) ++i;
    return i;
  };
  std::size_t start = 0, checked = 0, last_end = std::string_view::npos;
  while (!text.empty() && start <= text.size()) {
    std::size_t limit = std::min(start + kWindow, text.size());
    pcre2_set_offset_limit(context.get(), limit);
    int rc = pcre2_match(compiled_->code, subject, text.size(), start, PCRE2_NO_UTF_CHECK, data.data, context.get());
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH) compiled_->fail(rc, text.size());
    if (start - checked >= kWindow || rc < 0) {
      checked = start;
      if (thread_seconds() > last_second) compiled_->give_up("takes too long", text.size());
    }
    if (rc < 0) {
      if (limit == text.size()) break;
      start = skip_inside(limit);
      continue;
    }
    const PCRE2_SIZE* at = pcre2_get_ovector_pointer(data.data);
    const bool again = at[0] == at[1] && at[1] == last_end;  // an empty match right behind a match is none
    if (!again) found(at[0], at[1], captured_of(text, at, rc));
    last_end = at[1];
    start = again ? skip_inside(last_end + 1) : last_end;
  }
}

}  // namespace dml
