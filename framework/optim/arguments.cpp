#include "optim/arguments.h"

#include <algorithm>

namespace dml {
namespace {

using KnownArguments = std::vector<OptimizerArgument>;
constexpr const char* kArgs = "optim_args";

bool has(const KnownArguments& known, const std::string& name) {
  return std::ranges::find(known, name, &Argument::name) != known.end();
}

/// The arguments that a list (betas, eps) sets.
std::vector<std::string> members_of(const std::string& list, const KnownArguments& known) {
  std::vector<std::string> out;
  const std::vector<std::string> betas{"beta1", "beta2", "beta3"}, epsilons{"eps", "eps2"};
  for (const std::string& name : list == "betas" ? betas : epsilons)
    if (has(known, name)) out.push_back(name);
  return out;
}

std::string count_word(std::size_t n) { return n == 1 ? "one number" : n == 2 ? "two numbers" : "three numbers"; }

/// optim_args with lists split and aliases replaced. Arguments reports those that are unknown.
Json single_arguments(const Json& args, const KnownArguments& known, Problems& problems) {
  Json out = Json::object();
  for (auto& [given, value] : args.items()) {
    const std::string key = given == "epsilon" && !has(known, given) && has(known, "eps") ? "eps" : given;
    const bool list = (key == "betas" && !has(known, key)) || (key == "eps" && value.is_array());
    const std::vector<std::string> members = list ? members_of(key, known) : std::vector<std::string>{};
    if (members.empty()) out[key] = value;
    else if (!value.is_array() || value.size() != members.size() ||
             !std::ranges::all_of(value, [](const Json& v) { return v.is_number(); }))
      problems.add(fmt::format("{}: {} must be {}, is {}", kArgs, given, count_word(members.size()), dump(value)));
    else
      for (std::size_t i = 0; i < members.size(); ++i) out[members[i]] = value[i];
  }
  return out;
}

}  // namespace

Arguments read_arguments(const OptimizerSettings& settings, const KnownArguments& known) {
  Problems problems;
  const Json given = single_arguments(settings.args, known, problems);
  std::vector<Argument> arguments;
  for (const OptimizerArgument& a : known) {
    arguments.push_back(a);
    if (!a.from || !(settings.*a.from) || given.contains(a.name)) continue;
    Json& value = arguments.back().fallback = *(settings.*a.from);
    if (const std::string problem = a.problem_with(value); !problem.empty())
      problems.add(fmt::format("optimizer: {}", problem));
  }
  return Arguments(given, arguments, kArgs, std::move(problems));
}

OptimizerArgument weight_decay_argument() {
  return {"weight_decay", "weight decay of matrices", 0.0, &OptimizerSettings::weight_decay, 1000};
}

KnownArguments adam_arguments(double beta1, double beta2, double epsilon) {
  return {weight_decay_argument(),
          {"beta1", "decay rate of the first moment", beta1, &OptimizerSettings::beta1, 1},
          {"beta2", "decay rate of the second moment", beta2, &OptimizerSettings::beta2, 1},
          {"eps", "added to the denominator", epsilon, &OptimizerSettings::epsilon, 1}};
}

KnownArguments joined(KnownArguments first, const KnownArguments& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace dml
