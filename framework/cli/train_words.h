// The command-line arguments of dml train, which dml launch parses as well.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"

namespace dml {

struct TrainWords {
  std::string recipe;
  std::optional<std::string> resume;
  std::vector<Override> overrides;
  Options options{"train",
                  "train RECIPE [--resume auto|DIR|none] [--KEY VALUE …]",
                  {"dml train recipe.yml", "dml train recipe.yml --learning_rate 1e-4",
                   "dml train recipe.yml --ranks 1           one process with all threads",
                   "dml launch --hostfile hosts train recipe.yml", "dml resume outputs/run"}};

  TrainWords();
};

}  // namespace dml
