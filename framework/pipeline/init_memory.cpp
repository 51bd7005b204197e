#include "pipeline/init_memory.h"

#include <algorithm>

#include "checkpoint/model_config.h"
#include "diagnose/weightless_model.h"

namespace dml {

ModelSpec spec_of_config(const Json& config) { return read_model_config(config, "model_config"); }

MemoryPlan plan_of(const Recipe& recipe, const ModelSpec& spec, const ModelFacts& facts) {
  Recipe plain = recipe;
  plain.optim = {};  // AdamW: the recipe under construction has Axolotl's spelling
  WeightlessModel model(plain, spec, facts.storage);
  const std::int64_t answers = recipe.data.rows == RowKind::pairs ? 2 : 1,
                     examples = recipe.train.micro_batch_size * answers, tokens = examples * recipe.data.sequence_len,
                     documents = recipe.data.sample_packing
                                     ? std::min(tokens, examples * recipe.data.sample_packing_bin_size)
                                     : examples;
  return model.plan(tokens, documents);
}

}  // namespace dml
