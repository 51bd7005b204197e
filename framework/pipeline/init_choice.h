// dml init: chooses the settings of a run from the facts about model and data, each with its reason.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "assembly/memory_plan.h"
#include "pipeline/init_data.h"
#include "pipeline/init_model.h"
#include "recipe/recipe.h"

namespace dml {

/// Tokens of the examples that the sampled rows become.
struct LengthFacts {
  std::vector<std::int64_t> sorted;  // of every example
  double mean = 0;
  std::int64_t rows = 0;       // that were tokenized
  std::int64_t untrained = 0;  // of these: nothing to train on
  std::string failure;         // error of the first unreadable row; "": none
  std::int64_t failed = 0;
  /// The smallest length that this share of the examples does not exceed.
  std::int64_t quantile(double share) const;
  std::int64_t longest() const { return sorted.empty() ? 0 : sorted.back(); }
};

struct InitChoice {
  Recipe recipe;
  ChatChoice chat;  // with conversations
  LengthFacts lengths;
  MemoryPlan memory;  // of the largest micro-batch
  std::size_t available = 0;
  bool fits = true;
  std::int64_t examples = 0;  // to train on, about
  std::int64_t steps = 0;     // about
  std::vector<std::string> notes;
};

/// `output_dir`: of the run. `adapter`: what is trained, where that is not to follow from the model's size. UserError
/// when no row can be read, no row has anything to train on, or the model cannot be trained so.
InitChoice choose_settings(const ModelFacts& model, const DataFacts& data, const std::string& output_dir,
                           std::optional<AdapterKind> adapter = {});

}  // namespace dml
