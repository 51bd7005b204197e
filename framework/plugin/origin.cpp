#include "plugin/origin.h"

#include "core/shown.h"

namespace dml {

std::string one_line(std::string_view what) {
  constexpr std::size_t kMaxBytes = 1000;
  return shown(what, kMaxBytes);
}

void plugin_failed(const Origin& origin, std::string_view what) {
  throw UserError("plug-in {}: {}: {}", origin.plugin, origin.row, one_line(what));
}

std::vector<Argument> own_arguments(const std::vector<plugin::Argument>& known) {
  std::vector<Argument> out;
  for (const plugin::Argument& a : known) out.push_back({a.name, a.help, a.fallback, a.below, a.words});
  return out;
}

Json checked_arguments(const std::vector<plugin::Argument>& known, const Json& given, const std::string& key) {
  return Arguments(given, own_arguments(known), key).all();
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
