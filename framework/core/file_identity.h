// Recognizes a file that has not changed, without reading it.
#pragma once

#include <string>

namespace dml {

/// Device, inode, size and times of a file, which change whenever its contents do: only the system sets the time of the
/// last status change. "" if there is no such file.
std::string file_identity(const std::string& path);

}  // namespace dml
