#include "model/name_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/error.h"
#include "core/utf8.h"

namespace dml {
namespace {
constexpr std::size_t kMaxPattern = 4096;
constexpr std::uint32_t kMaxSteps = 200'000, kMaxDepth = 2'000, kMaxHeapKb = 4'096;
}  // namespace

struct NamePattern::Code {
  std::string text, source;
  pcre2_code* code = nullptr;
  pcre2_match_data* match = nullptr;
  pcre2_match_context* limits = nullptr;

  ~Code() {
    pcre2_match_context_free(limits);
    pcre2_match_data_free(match);
    pcre2_code_free(code);
  }
};

NamePattern::NamePattern(const std::string& pattern, const std::string& source) : code_(std::make_unique<Code>()) {
  code_->text = escape_controls(pattern.substr(0, 120));
  code_->source = source;
  if (pattern.size() > kMaxPattern)
    throw UserError("{}: pattern of {} bytes, the limit is {}", source, pattern.size(), kMaxPattern);
  int error = 0;
  PCRE2_SIZE at = 0;
  code_->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr);
  if (!code_->code) {
    PCRE2_UCHAR text[160] = {};
    pcre2_get_error_message(error, text, sizeof text);
    throw UserError("{}: pattern '{}', character {}: {}", source, code_->text, at + 1,
                    reinterpret_cast<const char*>(text));
  }
  code_->match = pcre2_match_data_create(1, nullptr);
  code_->limits = pcre2_match_context_create(nullptr);
  DML_CHECK(code_->match && code_->limits);
  pcre2_set_match_limit(code_->limits, kMaxSteps);
  pcre2_set_depth_limit(code_->limits, kMaxDepth);
  pcre2_set_heap_limit(code_->limits, kMaxHeapKb);
}

NamePattern::~NamePattern() = default;
NamePattern::NamePattern(NamePattern&&) noexcept = default;
NamePattern& NamePattern::operator=(NamePattern&&) noexcept = default;

bool NamePattern::matches(std::string_view name) const {
  int result = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(), 0, 0, code_->match,
                           code_->limits);
  if (result >= 0) return true;
  if (result == PCRE2_ERROR_NOMATCH) return false;
  throw UserError("{}: pattern '{}' takes too many steps on '{}'", code_->source, code_->text, name);
}

}  // namespace dml
