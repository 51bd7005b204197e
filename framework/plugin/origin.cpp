#include "plugin/origin.h"

#include <map>

#include "core/shown.h"
#include "optim/arguments.h"

namespace dml {

std::string one_line(std::string_view what) {
  constexpr std::size_t kMaxBytes = 1000;
  return shown(what, kMaxBytes);
}

void plugin_failed(const Origin& origin, std::string_view what) {
  throw UserError("plug-in {}: {}: {}", origin.plugin, origin.row, one_line(what));
}

std::vector<Argument> own_arguments(const std::vector<plugin::Argument>& known) {
  using From = Argument::From;
  static const std::map<std::string, From> settings{
      {"weight_decay", From::weight_decay}, {"adam_beta1", From::beta1},     {"adam_beta2", From::beta2},
      {"adam_beta3", From::beta3},          {"adam_epsilon", From::epsilon}, {"adam_epsilon2", From::epsilon2}};
  std::vector<Argument> out;
  for (const plugin::Argument& a : known) {
    const auto from = settings.find(a.setting);
    if (!a.setting.empty() && from == settings.end())
      throw UserError("argument '{}': there is no setting '{}'", a.name, a.setting);
    out.push_back({a.name, a.help, a.fallback, from == settings.end() ? From::args : from->second, a.below, a.words});
  }
  return out;
}

Json checked_arguments(const std::vector<plugin::Argument>& known, const Json& given, const std::string& key) {
  OptimizerSettings settings;
  settings.args = given;
  return Arguments(settings, own_arguments(known), key).all();
}

Json arguments_in_plugin_args(const std::vector<plugin::Argument>& known, const Json& given, const std::string& row) {
  const std::string key = "plugin_args." + row;
  try {
    return checked_arguments(known, given, key);
  } catch (const UserError& error) {
    throw error.about(key);
  }
}

}  // namespace dml
