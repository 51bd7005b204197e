// Checks of paths that the user passed.
#pragma once

#include <string>
#include <string_view>

namespace dml {

/// Throws UserError if `path` does not exist, is not a directory, or may not be entered: whether a file is in it is
/// then unknown, and file_exists() is false.
void require_directory(const std::string& path);
/// Whether the file is there; also false without the directory. UserError where require_directory() finds another
/// fault.
bool directory_has(const std::string& directory, std::string_view name);

/// What may be meant by a path that does not exist: "; did you mean 'NAME'?" (a name close to it), "; there is no
/// directory …" or "".
std::string near_missing(const std::string& path);

}  // namespace dml
