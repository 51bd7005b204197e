// Learning rates by parameter: embedding_lr, embedding_lr_scale and lr_groups of the recipe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nn/parameter.h"

namespace dml {

struct LearningRateGroups {
  struct Group {
    std::vector<std::string> modules;  // substrings of parameter names
    double learning_rate = 0;
  };
  double peak = 0;
  std::optional<double> embedding, embedding_scale;  // for the embedding and the head: a rate, or a factor of the peak
  std::vector<Group> groups;                         // the first match applies

  struct Rule {
    float learning_rate_scale = 1;
    bool decay = true;  // false: no weight decay, whatever the parameter
  };
  Rule rule(const Parameter& parameter) const;
};

}  // namespace dml
