// A recipe's text as a tree with places, before any setting is understood; and the list of what is wrong with it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dml::recipe {

/// 1-based; line 0 is the command line.
struct Place {
  int line = 0, column = 0;
};

/// Scalars keep their spelling: what a text means depends on the setting it is for (`2e-4`, `no`, `1_000`).
struct Node {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  bool plain = true;  // scalar without quotes
  std::string text;
  Place place;
  std::vector<Node> keys;   // map: scalars, as many as items
  std::vector<Node> items;  // list, map

  bool is_null() const { return kind == Kind::null; }
  bool is_scalar() const { return kind == Kind::scalar; }
  const Node* find(std::string_view key) const;
};

/// "true" / "false" for YAML 1.1's yes, no, on, off in any case; other texts as they are.
std::string canonical_bool(std::string_view text);

/// Everything there is to say about a recipe; errors are collected so that all are shown at once.
class Report {
 public:
  explicit Report(std::string name) : name_(std::move(name)) {}

  void error(Place place, const std::string& text);
  void warning(Place place, const std::string& text) { warnings_.push_back({place, text}); }
  void notice(const std::string& text) { notices.push_back(text); }
  /// "FILE:LINE:COLUMN" or "command line".
  std::string at(Place place) const;
  /// False once the limit of reported errors is reached; further ones are only counted.
  bool wants_more() const { return errors_.size() < kMost; }
  /// UserError with all errors sorted by place, when there are any.
  void raise() const;
  /// All warnings, sorted by place.
  std::vector<std::string> warnings() const { return sorted(warnings_); }

  std::vector<std::string> notices;

 private:
  static constexpr std::size_t kMost = 100;
  struct Line {
    Place place;
    std::string text;
  };
  std::vector<std::string> sorted(std::vector<Line> lines) const;

  std::string name_;
  std::vector<Line> errors_, warnings_;
  std::size_t more_ = 0;
};

/// A text from outside for a message: control characters escaped, cut after 60 bytes.
std::string shown(std::string_view text);

}  // namespace dml::recipe
