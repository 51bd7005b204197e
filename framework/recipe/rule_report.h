// Reports violations of rules between settings, with the places of both settings.
#pragma once

#include <fmt/format.h>

#include <string>

#include "recipe/fields.h"

namespace dml::recipe {

class RuleReport {
 public:
  explicit RuleReport(Reading& reading) : reading_(reading) {}

  /// Whether the recipe gives the setting a value other than "none".
  bool given(const std::string& key) const { return reading_.given.contains(key) && !reading_.off.contains(key); }
  /// Whether the setting has a value that could not be read, so that its member has the default.
  bool is_bad(const std::string& key) const { return reading_.report.is_bad(key); }
  Place place(const std::string& key) const {
    auto found = reading_.given.find(key);
    return found == reading_.given.end() ? Place{1, 1} : found->second;
  }
  /// "'KEY' (line 3)"
  std::string cite(const std::string& key) const {
    if (!given(key)) return fmt::format("'{}'", key);
    const Place at = place(key);
    return fmt::format("'{}' ({})", key, at.line ? fmt::format("line {}", at.line) : reading_.report.at(at));
  }
  void error(const std::string& key, const std::string& text) { reading_.report.error(place(key), text); }
  void warning(const std::string& key, const std::string& text) { reading_.report.warning(place(key), text); }
  void missing(const std::string& key, const std::string& text) {
    if (is_bad(key)) return;
    reading_.report.error({1, 1}, fmt::format("'{}' is missing: {}", key, text));
  }
  /// Adds an error if both keys are given.
  void exclusive(const std::string& a, const std::string& b) {
    if (!given(a) || !given(b)) return;
    bool a_later = place(a).line > place(b).line;
    const auto &later = a_later ? a : b, &first = a_later ? b : a;
    error(later, fmt::format("set either '{}' or {}, not both", later, cite(first)));
  }

 private:
  Reading& reading_;
};

/// Whether a recipe gives a top-level setting another value than its default. A resolved recipe sets every key, so a
/// default counts as unset.
bool changes(const Recipe& recipe, const char* key, const RuleReport& rules);
/// The row of a value; null if the choices of `key` are not known.
const Choice* choice_of(const char* key, const std::string& value);
/// Whether `setting` has an effect if `key` has this value; true unless the choices of `key` restrict it.
bool has_effect(const char* setting, const char* key, const std::string& value);

/// Rules of the keys about adapters …
void check_adapter(const Recipe& recipe, RuleReport& rules);
void check_relora(const Recipe& recipe, RuleReport& rules);
/// … about preferences …
void check_preference(const Recipe& recipe, RuleReport& rules);
/// … about rewards …
void check_rewards(const Recipe& recipe, RuleReport& rules);
/// … about evaluations …
void check_evals(const EvalSection& section, RuleReport& rules);
/// … and about experiment trackers and the Hub.
void check_log(const LogSection& log, RuleReport& rules);
/// Warns about settings that have no effect without another one.
void check_idle_keys(const Recipe& recipe, RuleReport& rules);

}  // namespace dml::recipe
