// Checks of paths and programs that the user passed.
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

/// `path` itself, or the nearest of its parents that exists: on whose file system, and with whose rights, it would be
/// created.
std::string nearest_existing(const std::string& path);

/// Whether a program can be executed: a path, or a name that is in a folder of PATH.
bool can_run(const std::string& program);

/// What may be meant by a path that does not exist: "; did you mean 'NAME'?" (a name close to it), "; there is no
/// directory …" or "".
std::string near_missing(const std::string& path);

}  // namespace dml
