// Learning rates by parameter: embedding_lr, embedding_lr_scale and lr_groups of the recipe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dml {

struct LearningRateGroups {
  struct Group {
    std::vector<std::string> modules;  // substrings of parameter names
    double learning_rate = 0;
  };
  double peak = 0;
  std::optional<double> embedding, embedding_scale;  // for embed_tokens and lm_head: a rate, or a factor of the peak
  std::vector<Group> groups;                         // the first match applies

  struct Rule {
    float learning_rate_scale = 1;
    bool decay = true;  // false: no weight decay, whatever the parameter
  };
  /// The rule for a parameter, by its name in the model file.
  Rule rule(std::string_view parameter) const;
};

}  // namespace dml
