// YAML text to Node. The only file that knows yaml-cpp is reader.cpp.
#pragma once

#include <string_view>

#include "recipe/node.h"

namespace dml::recipe {

inline constexpr std::size_t kLargestRecipe = std::size_t{1} << 20;

/// The tree of the one document in `text`: anchors, aliases and merge keys (`<<`) resolved, a bounded number of nodes.
/// Problems of the text go to the report, which is raised when no tree can be had.
Node read_yaml(std::string_view text, Report& report);

}  // namespace dml::recipe
