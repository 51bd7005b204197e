// Digests of large files without reading them at every start: computed digests are stored in a memo file, keyed by the
// file's path, size, inode and modification time.
#pragma once

#include <string>
#include <vector>

namespace dml {

/// One digest of the contents of all files, in this order. `memo`: the memo file; if it is missing, damaged or cannot
/// be written, the files are read again.
std::string content_digest(const std::vector<std::string>& paths, const std::string& memo);

}  // namespace dml
