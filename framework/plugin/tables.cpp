#include "plugin/tables.h"

#include <algorithm>
#include <vector>

#include "core/closest.h"

namespace dml {
namespace {

std::vector<std::string>& argument_names() {
  static std::vector<std::string> names;
  return names;
}

}  // namespace

Registry<PluginFactory<Evaluator>>& plugin_evaluators() {
  static Registry<PluginFactory<Evaluator>> table("evaluator", {});
  return table;
}

Registry<PluginFactory<Observer>>& plugin_observers() {
  static Registry<PluginFactory<Observer>> table("observer", {});
  return table;
}

Json arguments_of(const Json& plugin_args, const std::string& name) {
  const auto found = plugin_args.find(name);
  return found == plugin_args.end() || !found->is_object() ? Json::object() : *found;
}

void takes_arguments(const std::string& name) { argument_names().push_back(name); }

void check_plugin_names(const Json& plugin_args) {
  const std::vector<std::string>& known = argument_names();
  Problems problems;
  for (auto& [name, arguments] : plugin_args.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      problems.add({"plugin_args." + name, "",
                    fmt::format("plugin_args: no plug-in has added '{}'{}", name, did_you_mean(name, known))});
    else if (!arguments.is_object() && !arguments.is_null())
      problems.add({"plugin_args." + name, "", fmt::format("plugin_args.{}: expected a table of arguments", name)});
  }
  problems.raise();
}

}  // namespace dml
