// Patterns of file names, in every place where a dataset has them: on this disk, in an archive, on the Hub, in a card.
//
//   *  ?  [a-z]   within one name; not a dot at its start
//   {a,b}         either one
//   **            as a whole name: any number of folders, also none; at the end: all files below
#pragma once

#include <string>
#include <vector>

namespace dml {

bool is_pattern(const std::string& path);

/// Whether the path of a file fits a pattern; both relative to the same folder. UserError where `**` is a part of a
/// name.
bool fits_pattern(const std::string& pattern, const std::string& path);

/// The paths on this disk that fit, those of each alternative in braces sorted. A pattern with `**` finds files,
/// another one also folders.
std::vector<std::string> paths_of_pattern(const std::string& pattern);

/// The files below a folder, relative to it and sorted, without hidden ones; 100 000 at most.
std::vector<std::string> files_below(const std::string& folder);

}  // namespace dml
