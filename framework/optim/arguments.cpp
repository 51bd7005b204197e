#include "optim/arguments.h"

#include <algorithm>

#include "core/error.h"

namespace dml {
namespace {

std::optional<double> setting(const OptimizerSettings& s, Argument::From from) {
  using enum Argument::From;
  switch (from) {
    case weight_decay:
      return s.weight_decay;
    case beta1:
      return s.beta1;
    case beta2:
      return s.beta2;
    case beta3:
      return s.beta3;
    case epsilon:
      return s.epsilon;
    case epsilon2:
      return s.epsilon2;
    case args:
      break;
  }
  return std::nullopt;
}

std::vector<std::string> names_of(const std::vector<Argument>& known) {
  std::vector<std::string> names;
  for (const Argument& a : known) names.push_back(a.name);
  return names;
}

bool has(const std::vector<Argument>& known, const std::string& name) {
  return std::ranges::find(known, name, &Argument::name) != known.end();
}

/// The arguments that a list (betas, eps) sets.
std::vector<std::string> members_of(const std::string& key, const std::vector<Argument>& known) {
  std::vector<std::string> out;
  const std::vector<std::string> betas{"beta1", "beta2", "beta3"}, epsilons{"eps", "eps2"};
  for (const std::string& name : key == "betas" ? betas : epsilons)
    if (has(known, name)) out.push_back(name);
  return out;
}

std::string count_word(std::size_t n) { return n == 1 ? "one number" : n == 2 ? "two numbers" : "three numbers"; }

/// The arguments of a recipe, with lists split and aliases replaced.
Json single_arguments(const Json& args, const std::vector<Argument>& known, const std::string& setting,
                      Problems& problems) {
  Json out = Json::object();
  for (auto& [given, value] : args.items()) {
    const std::string key = given == "epsilon" ? "eps" : given;
    const bool list = key == "betas" || (key == "eps" && value.is_array());
    const std::vector<std::string> members = list ? members_of(key, known) : std::vector<std::string>{key};
    std::vector<std::string> names = names_of(known);
    if (!members_of("betas", known).empty()) names.push_back("betas");
    if (members.empty() || !has(known, members[0]))
      problems.add(fmt::format("{}: unknown argument '{}'{}", setting, given, did_you_mean(given, names)));
    else if (!list) out[key] = value;
    else if (!value.is_array() || value.size() != members.size() ||
             !std::ranges::all_of(value, [](const Json& v) { return v.is_number(); }))
      problems.add(fmt::format("{}: {} must be {}, is {}", setting, given, count_word(members.size()), dump(value)));
    else
      for (std::size_t i = 0; i < members.size(); ++i) out[members[i]] = value[i];
  }
  return out;
}

/// Why a value is not valid for an argument; "" if it is.
std::string problem_with(const Argument& a, const Json& value) {
  if (a.fallback.is_boolean())
    return value.is_boolean() ? "" : fmt::format("{} must be true or false, is {}", a.name, dump(value));
  if (a.fallback.is_string()) {
    const std::string text = value.is_string() ? value.get<std::string>() : "";
    if (std::ranges::find(a.words, text) != a.words.end() || (a.words.empty() && value.is_string())) return "";
    if (a.words.empty()) return fmt::format("{} must be a text, is {}", a.name, dump(value));
    return fmt::format("{} must be one of {}, is {}{}", a.name, fmt::join(a.words, ", "), dump(value),
                       did_you_mean(text, a.words));
  }
  if (!a.fallback.is_number()) return "";
  if (!value.is_number()) return fmt::format("{} must be a number, is {}", a.name, dump(value));
  const double number = value.get<double>();
  if (number >= 0 && number < a.below) return "";
  if (a.below >= 1e300) return fmt::format("{} must not be negative, is {}", a.name, number);
  return fmt::format("{} must be in [0, {}), is {}", a.name, a.below, number);
}

}  // namespace

Arguments::Arguments(const OptimizerSettings& settings, const std::vector<Argument>& known, const std::string& key) {
  Problems problems;
  const Json args = single_arguments(settings.args, known, key, problems);
  for (const Argument& a : known) {
    Value v{a.name, a.fallback};
    if (args.contains(a.name)) v = {a.name, args[a.name]};
    else if (auto number = setting(settings, a.from)) v = {a.name, *number};
    if (const std::string problem = problem_with(a, v.value); !problem.empty())
      problems.add(fmt::format("{}: {}", args.contains(a.name) ? key : "optimizer", problem));
    values_.push_back(std::move(v));
  }
  problems.raise();
}

const Arguments::Value& Arguments::at(std::string_view name) const {
  auto found = std::ranges::find(values_, name, &Value::name);
  DML_CHECK(found != values_.end(), "no argument {}", name);
  return *found;
}

double Arguments::number(std::string_view name) const { return at(name).value.get<double>(); }
bool Arguments::flag(std::string_view name) const { return at(name).value.get<bool>(); }
const std::string& Arguments::word(std::string_view name) const { return at(name).value.get_ref<const std::string&>(); }
Json Arguments::all() const {
  Json out = Json::object();
  for (const Value& v : values_) out[v.name] = v.value;
  return out;
}

Argument weight_decay_argument() {
  return {"weight_decay", "weight decay of matrices", 0.0, Argument::From::weight_decay, 1000};
}

std::vector<Argument> adam_arguments(double beta1, double beta2, double epsilon) {
  using From = Argument::From;
  return {weight_decay_argument(),
          {"beta1", "decay rate of the first moment", beta1, From::beta1, 1},
          {"beta2", "decay rate of the second moment", beta2, From::beta2, 1},
          {"eps", "added to the denominator", epsilon, From::epsilon, 1}};
}

std::vector<Argument> joined(std::vector<Argument> first, const std::vector<Argument>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace dml
