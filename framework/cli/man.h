// Manual pages generated from the table of commands and the recipe's field list, in roff (man macros): dml(1),
// dml-COMMAND(1) and dml-recipe(5).
#pragma once

#include <string>
#include <vector>

namespace dml {

struct ManPage {
  std::string file;  // "dml-train.1"
  std::string roff;
};

/// dml(1), dml-NAME(1) for a command, or dml-recipe(5) for "recipe". UserError with the nearest name otherwise.
ManPage man_page(const std::string& name);
/// All manual pages.
std::vector<ManPage> man_pages();

}  // namespace dml
