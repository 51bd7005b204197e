#include "core/arguments.h"

#include <algorithm>
#include <cmath>

#include "core/closest.h"

namespace dml {
namespace {

constexpr double kExactWholeNumbers = 9007199254740992;  // 2^53: a double holds every whole number below

}  // namespace

std::string Argument::problem_with(const Json& value) const {
  if (fallback.is_boolean())
    return value.is_boolean() ? "" : fmt::format("{} must be true or false, is {}", name, dump(value));
  if (fallback.is_string()) {
    const std::string text = value.is_string() ? value.get<std::string>() : "";
    if (std::ranges::find(words, text) != words.end() || (words.empty() && value.is_string())) return "";
    if (words.empty()) return fmt::format("{} must be a string, is {}", name, dump(value));
    return fmt::format("{} must be one of {}, is {}{}", name, fmt::join(words, ", "), dump(value),
                       did_you_mean(text, words));
  }
  if (!fallback.is_number()) return "";
  if (!value.is_number()) return fmt::format("{} must be a number, is {}", name, dump(value));
  const double number = value.get<double>();
  const bool whole = fallback.is_number_integer();
  if (whole && number != std::floor(number)) return fmt::format("{} must be a whole number, is {}", name, number);
  const double end = whole ? std::min(below, kExactWholeNumbers) : below;
  if (number >= 0 && number < end) return "";
  if (number < 0 && below >= 1e300) return fmt::format("{} must not be negative, is {}", name, number);
  return fmt::format("{} must be in [0, {}), is {}", name, end, number);
}

Arguments::Arguments(const Json& given, const std::vector<Argument>& known, const std::string& key, Problems problems) {
  std::vector<std::string> names;
  for (const Argument& a : known) names.push_back(a.name);
  for (auto& [name, value] : given.items())
    if (std::ranges::find(names, name) == names.end())
      problems.add(fmt::format("{}: unknown argument '{}'{}", key, name, did_you_mean(name, names)));
  for (const Argument& a : known) {
    const Json& value = values_[a.name] = given.contains(a.name) ? given.at(a.name) : a.fallback;
    if (const std::string problem = a.problem_with(value); given.contains(a.name) && !problem.empty())
      problems.add(fmt::format("{}: {}", key, problem));
  }
  problems.raise();
}

const Json& Arguments::at(std::string_view name) const {
  const auto found = values_.find(name);
  DML_CHECK(found != values_.end(), "no argument {}", name);
  return *found;
}

double Arguments::number(std::string_view name) const { return at(name).get<double>(); }
bool Arguments::flag(std::string_view name) const { return at(name).get<bool>(); }
const std::string& Arguments::word(std::string_view name) const { return at(name).get_ref<const std::string&>(); }

}  // namespace dml
