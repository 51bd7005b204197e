// Tables of rows that only plug-ins add, and the arguments that a recipe gives them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/json.h"
#include "core/registry.h"
#include "train/evaluator.h"
#include "train/observer.h"

namespace dml {

/// Creates an object from the row's arguments: plugin_args.NAME of the recipe.
template <class Thing>
using PluginFactory = std::function<std::unique_ptr<Thing>(const Json& given)>;

Registry<PluginFactory<Evaluator>>& plugin_evaluators();
Registry<PluginFactory<Observer>>& plugin_observers();

/// plugin_args.NAME; an empty object if it is not set, or no object (which check_plugin_names() reports).
Json arguments_of(const Json& plugin_args, const std::string& name);
/// Registers a row of a plug-in that plugin_args.NAME may configure.
void takes_arguments(const std::string& name);
/// UserError for a name in plugin_args that no loaded row has, with the nearest one.
void check_plugin_names(const Json& plugin_args);

}  // namespace dml
