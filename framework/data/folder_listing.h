// The files below a folder that may be data.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace dml {

struct FolderListing {
  std::vector<std::string> names;   // of the files, relative to the folder, sorted
  std::vector<std::string> unread;  // archives, and files of rows with an ending that is unknown
};

/// Lists the files whose names are `wanted`. Hidden files, folders of prepared data, and Arrow files that the folder's
/// state.json does not name are left out. UserError for what cannot be read, and for more than 100 000 files.
FolderListing list_folder(const std::string& folder, const std::function<bool(const std::string&)>& wanted);

}  // namespace dml
