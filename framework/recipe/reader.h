// YAML text to Node. Only reader.cpp uses yaml-cpp.
#pragma once

#include <string_view>

#include "recipe/node.h"

namespace dml::recipe {

inline constexpr std::size_t kMaxRecipeBytes = std::size_t{1} << 20;

/// Parses the single document in `text`; resolves anchors, aliases and merge keys (`<<`); the number of nodes is
/// bounded. Problems are added to the report; throws UserError if there is no valid tree.
Node read_yaml(std::string_view text, Report& report);

}  // namespace dml::recipe
