// Loads plug-ins: shared libraries that add rows to the tables (include/dml/plugin.h). A plug-in is code that runs with
// the rights of the program from the moment it is loaded.
#pragma once

#include <string>

namespace dml {

/// Adds the rows of this library, all or none; a library that is loaded already is left as it is. Returns what it is,
/// for people: "mine 1.0: optimizer sign_sgd, schedule saw". UserError when it cannot be loaded, was built for another
/// ABI, throws, or adds a name that is taken. Libraries stay loaded as long as the process.
std::string load_plugin(const std::string& path);

}  // namespace dml
