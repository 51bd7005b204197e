// Checks whether this machine has the resources that a run needs: memory on one rank, disk space for a checkpoint and
// the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "assembly/base_model.h"
#include "assembly/calendar.h"
#include "recipe/recipe.h"

namespace dml {

/// Number of tokens of each example in training and validation order. Empty: unknown; every micro-batch is then assumed
/// to be as large as sequence_len allows.
struct ExampleLengths {
  std::vector<std::int32_t> train, validation;
};

struct Requirements {
  std::vector<Problem> problems;   // reasons for which training would not start, or could not finish
  std::vector<std::string> notes;  // resources of the run, and possible problems
};

/// Determines the requirements without reading weights. UserError when the model cannot be built.
Requirements requirements(const Recipe& recipe, const BaseModel& base, const ExampleLengths& lengths);

/// The settings of a recipe that bound the tokens of an example, for messages.
const char* length_settings(const Recipe& recipe);

/// How many checkpoints a run that saves `saves` times has on disk at once: those that it keeps, and one that is being
/// written before an older one is removed.
std::int64_t most_checkpoints(const TrainSection& train, std::int64_t saves);

/// How many checkpoints such a run adds, at least 1, to those that are in its folder and precede `from`, the checkpoint
/// that it resumes from ("": none); 0 if it saves none.
std::int64_t added_checkpoints(const TrainSection& train, const Calendar& calendar, const std::string& from);

/// UserError when the file system of this directory, which may not exist yet, has less than `bytes` bytes free.
void check_disk_space(const std::string& directory, std::size_t bytes);

}  // namespace dml
