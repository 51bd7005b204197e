// A directory that somebody named.
#pragma once

#include <string>

namespace dml {

/// UserError when there is none at `path`, or something else.
void require_directory(const std::string& path);

}  // namespace dml
