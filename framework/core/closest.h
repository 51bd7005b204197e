// "did you mean": the nearest name by Damerau–Levenshtein distance (restricted), within a bound that grows with length.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace dml {

/// Edit distance with transpositions of neighbors.
int edit_distance(std::string_view a, std::string_view b);

/// The choice nearest to `word`, or "" when none is close enough. Case and '-' / '_' are ignored.
std::string closest(std::string_view word, std::span<const std::string> choices);

/// "; did you mean 'X'?" or "; choose from a, b, c" (at most 12 choices) or "".
std::string did_you_mean(std::string_view word, std::span<const std::string> choices);

}  // namespace dml
