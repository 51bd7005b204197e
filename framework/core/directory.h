// Checks of paths that the user passed.
#pragma once

#include <string>

namespace dml {

/// Throws UserError if `path` does not exist or is not a directory.
void require_directory(const std::string& path);

/// What may be meant by a path that does not exist: "; did you mean 'NAME'?" (a name close to it), "; there is no
/// directory …" or "".
std::string near_missing(const std::string& path);

}  // namespace dml
