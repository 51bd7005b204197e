// The plug-in that a row came from. Exceptions of its code become a UserError that names it: one line on every rank.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/arguments.h"
#include "core/error.h"
#include "dml/registry.h"

namespace dml {

struct Origin {
  std::string plugin;  // "mine 1.0 (./libmine.so)"
  std::string row;     // "optimizer 'sign_sgd'"
};

/// The text of a plug-in's exception, as one line of limited length.
std::string one_line(std::string_view what);

[[noreturn]] void plugin_failed(const Origin& origin, std::string_view what);

/// Calls code of a plug-in and converts its exceptions.
template <class Call>
auto guarded(const Origin& origin, Call&& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    plugin_failed(origin, error.what());
  } catch (...) {
    plugin_failed(origin, "an exception that is not a std::exception");
  }
}

/// Creates the object of a row from its checked arguments.
template <class Thing>
std::unique_ptr<Thing> make_of(const Origin& origin, const plugin::Row<Thing>& row, const Json& arguments) {
  std::unique_ptr<Thing> made = guarded(origin, [&] { return row.make(arguments); });
  if (!made) plugin_failed(origin, "its factory made nothing");
  return made;
}

/// Converts a row's arguments to those of dml's rows.
std::vector<Argument> own_arguments(const std::vector<plugin::Argument>& known);
/// All arguments of a row: from `given`, else the default. UserError with one line per unknown or invalid argument,
/// prefixed with `key`, the setting that gives them.
Json checked_arguments(const std::vector<plugin::Argument>& known, const Json& given, const std::string& key);
/// The same for a row whose arguments stand in plugin_args; an error is about that key.
Json arguments_in_plugin_args(const std::vector<plugin::Argument>& known, const Json& given, const std::string& row);

}  // namespace dml
