// Loads plug-ins: shared libraries that add rows to the tables (include/dml/plugin.h). Once loaded, a plug-in's code
// runs with the rights of the program.
#pragma once

#include <string>

namespace dml {

/// Loads a library and adds all its rows, or none; does nothing if it is already loaded. Returns a description: "mine
/// 1.0: optimizer sign_sgd, schedule saw". UserError when it cannot be loaded, was built for another ABI, throws, or
/// adds an existing name. Libraries are never unloaded.
std::string load_plugin(const std::string& path);

}  // namespace dml
