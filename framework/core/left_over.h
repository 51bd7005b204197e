// Names of temporary files and folders, and the removal of those that killed processes left.
#pragma once

#include <string>

namespace dml {

/// A new name beside `target`: ".NAME.tmp-PID-N".
std::string temporary_name(const std::string& target);

/// Removes the temporary files and folders in `folder` whose process has ended, or ends within `patience` seconds.
/// Errors are ignored.
void remove_left_over(const std::string& folder, double patience = 0);
/// Removes the temporary files and folders that killed writers of `target` left beside it. Errors are ignored.
void remove_left_over_of(const std::string& target);

}  // namespace dml
