// The digest of large files without reading them at every start: what was computed once is remembered beside the cache
// that asks, under the file's path, size, inode and time of change.
#pragma once

#include <string>
#include <vector>

namespace dml {

/// One digest of the contents of all files, in this order. `memo` is a file of ours; when it is missing, damaged or
/// cannot be written, the files are read again, no more.
std::string content_digest(const std::vector<std::string>& paths, const std::string& memo);

}  // namespace dml
