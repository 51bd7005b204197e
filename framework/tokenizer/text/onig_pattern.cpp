#include "tokenizer/text/onig_pattern.h"

#include <fmt/format.h>
#include <oniguruma.h>

#include <algorithm>
#include <climits>
#include <string>

#include "core/clock.h"
#include "core/error.h"
#include "core/shown.h"
#include "core/utf8.h"
#include "core/virtual_threads.h"
#include "tokenizer/text/unicode.h"

namespace dml {
namespace {

constexpr unsigned kMaxNesting = 1000;  // of groups and classes; a group counts twice
// Limits of one call of the library. Its own default for steps, at which Hugging Face's tokenizers stop as well; and
// the positions to which it may return, of 48 bytes each.
constexpr unsigned long kMaxSteps = 10'000'000;
constexpr unsigned kMaxStack = 1u << 22;
// The library cannot be interrupted, and a search of possessive repetitions takes quadratic time without counting a
// step. So it searches no more than this; in longer texts every start position is one call.
constexpr std::size_t kMaxSearched = 32 << 10;
constexpr double kSearchSeconds = 5;

const OnigUChar* bytes(std::string_view text) { return reinterpret_cast<const OnigUChar*>(text.data()); }

// The default syntax without callouts: (?{…}) and (*NAME).
OnigSyntaxType* onig_syntax() {
  static OnigSyntaxType syntax = [] {
    OnigEncoding utf8 = ONIG_ENCODING_UTF8;
    onig_initialize(&utf8, 1);
    onig_set_parse_depth_limit(kMaxNesting);
    OnigSyntaxType out;
    onig_copy_syntax(&out, ONIG_SYNTAX_ONIGURUMA);
    onig_set_syntax_op2(&out, onig_get_syntax_op2(&out) &
                                  ~(ONIG_SYN_OP2_QMARK_BRACE_CALLOUT_CONTENTS | ONIG_SYN_OP2_ASTERISK_CALLOUT_NAME));
    return out;
  }();
  return &syntax;
}

// Why the library must not see a pattern; "" if it may.
std::string problem(std::string_view pattern) {
  if (pattern.size() > OnigPattern::kMaxBytes)
    return fmt::format("it has {} bytes, the limit is {}", pattern.size(), OnigPattern::kMaxBytes);
  if (find_invalid_utf8(pattern) != pattern.npos) return "it is not UTF-8";
  // The compiler follows every path of calls: 2^n of them where n groups call the next one twice.
  std::size_t calls = 0;
  for (std::size_t at = pattern.find("\\g"); at != pattern.npos; at = pattern.find("\\g", at + 2)) ++calls;
  if (calls > OnigPattern::kMaxCalls)
    return fmt::format("it has {} calls of groups, the limit is {}", calls, OnigPattern::kMaxCalls);
  return "";
}

// Where a thread's searches put their matches, and their limits.
struct OnigSearch {
  OnigSearch() {
    DML_CHECK(region && limits);
    onig_set_retry_limit_in_match_of_match_param(limits.get(), kMaxSteps);
    onig_set_retry_limit_in_search_of_match_param(limits.get(), kMaxSteps);
    onig_set_match_stack_limit_size_of_match_param(limits.get(), kMaxStack);
  }
  static void free_region(OnigRegion* region) { onig_region_free(region, 1); }
  std::unique_ptr<OnigRegion, void (*)(OnigRegion*)> region{onig_region_new(), free_region};
  std::unique_ptr<OnigMatchParam, void (*)(OnigMatchParam*)> limits{onig_new_match_param(), onig_free_match_param};
};

}  // namespace

struct OnigPattern::Compiled {
  std::string pattern, where;
  regex_t* regex = nullptr;

  ~Compiled() { onig_free(regex); }
  [[noreturn]] void give_up(const char* what, std::size_t size) const {
    throw UserError("{}: regular expression '{}' {} on a text of {} bytes", where, pattern, what, size);
  }
};

OnigPattern::OnigPattern(std::string_view pattern, std::string_view where) {
  auto compiled = std::make_shared<Compiled>();
  compiled->pattern = shown(pattern, 60);
  compiled->where = where;
  std::string why = problem(pattern);
  OnigErrorInfo place{};
  int rc = ONIG_NORMAL;
  if (why.empty())
    rc = onig_new(&compiled->regex, bytes(pattern), bytes(pattern) + pattern.size(), ONIG_OPTION_NONE,
                  ONIG_ENCODING_UTF8, onig_syntax(), &place);
  if (rc != ONIG_NORMAL) {
    OnigUChar message[ONIG_MAX_ERROR_MESSAGE_LEN] = {};
    const int size = onig_error_code_to_str(message, rc, &place);
    why = shown({reinterpret_cast<const char*>(message), static_cast<std::size_t>(size)}, sizeof message);
  }
  if (!why.empty()) throw UserError("{}: regular expression '{}': {}", where, compiled->pattern, why);
  compiled_ = std::move(compiled);
}

void OnigPattern::find_all(std::string_view text, std::vector<ByteRange>& matches) const {
  matches.clear();
  if (text.empty()) return;
  if (text.size() > INT_MAX) compiled_->give_up("cannot be used", text.size());
  thread_local const OnigSearch search;
  // Processor time, which other programs do not affect. To ask for it costs as much as a short search, so first the
  // clock is looked at.
  const double began = thread_seconds(), most = kSearchSeconds + static_cast<double>(text.size()) * 1e-6;
  const Clock::time_point start = Clock::now();
  const OnigUChar *first = bytes(text), *last = first + text.size();
  const auto behind_character = [&](std::size_t i) { return i < text.size() ? i + char_length(text[i]) : i + 1; };
  std::size_t at = 0;
  while (at <= text.size()) {
    const bool whole = text.size() - at <= kMaxSearched;
    const int rc = whole ? onig_search_with_param(compiled_->regex, first, last, first + at, last, search.region.get(),
                                                  ONIG_OPTION_NONE, search.limits.get())
                         : onig_match_with_param(compiled_->regex, first, last, first + at, search.region.get(),
                                                 ONIG_OPTION_NONE, search.limits.get());
    if (rc < ONIG_MISMATCH) compiled_->give_up("takes too many steps", text.size());
    if (seconds_since(start) > most && thread_seconds() - began > most)
      compiled_->give_up("takes too long", text.size());
    if (rc == ONIG_MISMATCH) {
      if (whole) return;
      at = behind_character(at);
      continue;
    }
    // With \K in a look-behind, a match may begin before the end of the last one.
    const std::uint32_t done = matches.empty() ? 0 : matches.back().end;
    const auto begin = std::max(static_cast<std::uint32_t>(search.region->beg[0]), done);
    const auto end = static_cast<std::uint32_t>(search.region->end[0]);
    const bool again = !matches.empty() && begin == end && end == done;  // an empty match right behind a match is none
    if (!again) matches.push_back({begin, end});
    at = again ? behind_character(end) : end;
  }
}

}  // namespace dml
