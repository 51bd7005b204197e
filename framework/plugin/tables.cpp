#include "plugin/tables.h"

#include "dist/strategy.h"
#include "train/objective_rows.h"

namespace dml {

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
  return found == plugin_args.end() || found->is_null() ? Json::object() : *found;
}

void check_plugin_names(const Json& plugin_args) {
  std::vector<std::string> known;
  auto add = [&](const auto& table) {
    for (auto& name : table.names()) known.push_back(name);
  };
  add(objectives());
  add(plugin_evaluators());
  add(plugin_observers());
  add(strategies());
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
