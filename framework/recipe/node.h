// The YAML tree of a recipe with positions, before settings are interpreted, and the report of its problems.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/shown.h"

namespace dml::recipe {

/// 1-based line and column in the recipe; line 0: override number `column` (Report::add_override).
struct Place {
  int line = 0, column = 0;
};

/// Scalars keep their text; its meaning depends on the type of the setting (`2e-4`, `no`, `1_000`).
struct Node {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  bool plain = true;  // scalar without quotes
  std::string text;
  Place place;
  std::vector<Node> keys;   // map: scalars, keys[i] of items[i]
  std::vector<Node> items;  // list, map

  bool is_null() const { return kind == Kind::null; }
  bool is_scalar() const { return kind == Kind::scalar; }
  const Node* find(std::string_view key) const;
};

/// "true" or "false" for YAML 1.1's yes, no, on, off in any case; other texts unchanged.
std::string canonical_bool(std::string_view text);

/// Collects errors, warnings and notices about a recipe, so that all of them are shown at once.
class Report {
 public:
  explicit Report(std::string name) : name_(std::move(name)) {}

  void error(Place place, const std::string& text);
  void warning(Place place, const std::string& text) { warnings_.push_back({place, text}); }
  void notice(const std::string& text) { notices.push_back(text); }
  /// "FILE:LINE:COLUMN", or the place of an override ("command line").
  std::string at(Place place) const;
  /// Adds an override, given at `place` ("command line"), and returns its Place.
  Place add_override(const std::string& place);
  /// The number of errors so far.
  std::size_t errors() const { return errors_.size() + more_; }
  /// Errors that were added after the first `before` ones are about the value of this setting.
  void name_errors(std::size_t before, const std::string& key);
  /// Whether the value of a setting has an error that name_errors() knows.
  bool is_bad(const std::string& key) const;
  /// False once the limit of reported errors is reached; further errors are only counted.
  bool wants_more() const { return errors_.size() < kMax; }
  /// All errors, sorted by place.
  std::vector<Problem> problems() const;
  /// Throws UserError with all errors, if there are any.
  void raise() const;
  /// All warnings, sorted by place.
  std::vector<std::string> warnings() const;

  std::vector<std::string> notices;

 private:
  static constexpr std::size_t kMax = 100;
  struct Line {
    Place place;
    std::string text, key = {};
  };
  std::vector<Problem> sorted(std::vector<Line> lines) const;

  std::string name_;
  std::vector<std::string> overrides_;
  std::vector<Line> errors_, warnings_;
  std::size_t more_ = 0;
};

using dml::shown;

}  // namespace dml::recipe
