// Whether this machine has what a run takes: memory for the plan on one rank, space on disk for a checkpoint and the
// result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "assembly/base_model.h"
#include "recipe/recipe.h"

namespace dml {

/// Tokens of each example, in the order of training and validation; empty: unknown, so that every micro-batch may be as
/// large as sequence_len allows.
struct ExampleLengths {
  std::vector<std::int32_t> train, validation;
};

struct Requirements {
  std::vector<Problem> problems;   // training would refuse the run, or could not end it
  std::vector<std::string> notes;  // what the run takes; what may become a problem
};

/// Measured without reading weights. UserError when the model cannot be put together.
Requirements requirements(const Recipe& recipe, const BaseModel& base, const ExampleLengths& lengths);

/// UserError when the file system of this directory, which need not exist yet, has less space than that.
void check_disk_space(const std::string& directory, std::size_t bytes);

}  // namespace dml
