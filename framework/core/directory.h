// Checks a directory that the user passed.
#pragma once

#include <string>

namespace dml {

/// Throws UserError if `path` does not exist or is not a directory.
void require_directory(const std::string& path);

}  // namespace dml
