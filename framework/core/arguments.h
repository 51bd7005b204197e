// Arguments that an optimizer, a check or a plug-in declares, and the values that a recipe gives them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/json.h"

namespace dml {

/// Its type is that of its default, `fallback`: after 1 only whole numbers are valid, after 1.0 any number.
struct Argument {
  std::string name, help;
  Json fallback;
  double below = 1e300;                 // upper bound of numbers, which must be in [0, below)
  std::vector<std::string> words = {};  // allowed values of a text; empty: any

  /// Why a value is not valid; "" if it is.
  std::string problem_with(const Json& value) const;
};

class Arguments {
 public:
  /// Every argument is read from `given`, else it has its default. Throws UserError with a line for each of `problems`
  /// and for every argument that is unknown, of the wrong type, or out of range. `key`: the setting that gives them.
  Arguments(const Json& given, const std::vector<Argument>& known, const std::string& key, Problems problems = {});

  double number(std::string_view name) const;
  float real(std::string_view name) const { return static_cast<float>(number(name)); }
  /// Of an argument whose default is a whole number.
  std::int64_t whole_number(std::string_view name) const { return static_cast<std::int64_t>(number(name)); }
  bool flag(std::string_view name) const;
  const std::string& word(std::string_view name) const;
  /// All of them, by name.
  const Json& all() const { return values_; }

 private:
  const Json& at(std::string_view name) const;
  Json values_ = Json::object();
};

}  // namespace dml
