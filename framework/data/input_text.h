// The inputs of a prepared folder and their values, as people read them. Its manifest holds numbers for enumerations,
// and the names of prepared folders are derived from these numbers, so they must not change.
#pragma once

#include <string>
#include <string_view>

namespace dml {

/// The input `name`: "kind of rows" for "rl", several of whose values have one kind; any other unchanged.
std::string input_name(std::string_view name);
/// `value` of the input `name` ("excess_length_strategy", "datasets[0].train_on_eos"): an enumeration as a recipe
/// spells it; the kind of rows for "rl"; anything else unchanged.
std::string input_text(std::string_view name, const std::string& value);

}  // namespace dml
