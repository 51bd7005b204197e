// dml init: chooses the settings of a run from the properties of model and data, each with its reason.
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

/// Token counts of the examples made from the sampled rows.
struct LengthFacts {
  std::vector<std::int64_t> sorted;  // lengths of all examples, ascending
  double mean = 0;
  std::int64_t rows = 0;       // rows that were tokenized
  std::int64_t untrained = 0;  // rows without trained tokens
  std::string failure;         // error of the first unreadable row; "" if there is none
  std::int64_t failed = 0;
  /// The smallest length that this fraction of the examples does not exceed.
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
  std::int64_t examples = 0;  // approximate number of training examples
  std::int64_t steps = 0;     // approximate
  std::vector<std::string> notes;
};

/// `output_dir`: of the run. `adapter`: overrides the choice by the model's size. UserError when no row can be read or
/// has trained tokens, or when the model cannot be trained this way.
InitChoice choose_settings(const ModelFacts& model, const DataFacts& data, const std::string& output_dir,
                           std::optional<AdapterKind> adapter = {});

}  // namespace dml
