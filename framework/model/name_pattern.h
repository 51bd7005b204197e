// Regular expressions over module names, as PEFT uses them (Python's `re`, here PCRE2 with limits on the work done, so
// that a pattern out of a stranger's adapter_config.json can neither hang nor overflow the stack).
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace dml {

class NamePattern {
 public:
  /// UserError with `source` for a bad pattern.
  NamePattern(const std::string& pattern, const std::string& source);
  ~NamePattern();
  NamePattern(NamePattern&&) noexcept;
  NamePattern& operator=(NamePattern&&) noexcept;

  /// Whether the whole name matches.
  bool matches(std::string_view name) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace dml
