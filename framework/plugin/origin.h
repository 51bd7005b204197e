// Which plug-in a row came from. What its code throws becomes a UserError that names it: one line on every rank.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "dml/registry.h"
#include "optim/optimizer.h"

namespace dml {

struct Origin {
  std::string plugin;  // "mine 1.0 (./libmine.so)"
  std::string row;     // "optimizer 'sign_sgd'"
};

[[noreturn]] void plugin_failed(const Origin& origin, std::string_view what);

/// Calls into a plug-in.
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

/// Makes the object of a row from its checked arguments.
template <class Thing>
std::unique_ptr<Thing> make_of(const Origin& origin, const plugin::Row<Thing>& row, const Json& arguments) {
  std::unique_ptr<Thing> made = guarded(origin, [&] { return row.make(arguments); });
  if (!made) plugin_failed(origin, "its factory made nothing");
  return made;
}

/// A row's arguments as optimizers of dml have them.
std::vector<Argument> own_arguments(const std::vector<plugin::Argument>& known);
/// Every argument of a row: from `given`, else its default. UserError with a line for each that is unknown or wrong;
/// `key`, the setting that gives them, in front.
Json checked_arguments(const std::vector<plugin::Argument>& known, const Json& given, const std::string& key);

}  // namespace dml
