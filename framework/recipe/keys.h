// The keys of a recipe with their help, derived from the field list.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"

namespace dml {

/// Every key that has an effect, in the order of the reference.
std::vector<std::string> keys();
/// The help of a key ("lora_r", "datasets.path"), several lines. Throws UserError with the nearest key.
std::string help_for(const std::string& key);
/// The settings of a new entry of a list of tables ("datasets"), as resolved_json() has them; none of other keys.
Json entry_defaults(const std::string& list);
/// The name in the reference of the setting that a key sets: the key itself, unless it is an alias.
std::string setting_of(const std::string& key);
/// A key for manual pages and shell completions.
struct KeyHelp {
  std::string name, help, type, fallback, example;  // fallback: the default, or what happens without the key
  std::vector<std::string> values;                  // the allowed values; empty: not an enumeration
  bool path = false;                                // its value is a file or a directory
};
struct KeySection {
  std::string title, intro;
  std::vector<KeyHelp> keys;
};
/// Every key that has an effect, in the order of the reference.
std::vector<KeySection> key_sections();

}  // namespace dml
