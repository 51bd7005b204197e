// The part of recipes/DATASETS.md about preferences.
#pragma once

#include <string>

namespace dml {

std::string preference_sections();

}  // namespace dml
