// A model without weights: its parameters have names and shapes, and the memory of a pass is measured as in a run. No
// weight is read, so a base of any size takes milliseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "model/causal_lm.h"
#include "recipe/recipe.h"

namespace dml {

struct BaseModel;   // assembly/base_model.h
struct MemoryPlan;  // assembly/memory_plan.h
class ZeroWeights;

/// How the base's files store its weights.
struct BaseStorage {
  std::string directory;        // "" for a model from scratch
  DType matrices = DType::f32;  // dtype of most matrices
  /// Tensors in ggml block formats; these are used unchanged, and load_in_4bit quantizes no others.
  std::map<std::string, DType> blocks;
};
BaseStorage storage_of(const BaseModel& base);

class WeightlessModel {
 public:
  /// Throws the UserErrors of training: targets that match nothing, an adapter directory that cannot be read.
  WeightlessModel(const Recipe& recipe, const ModelSpec& spec, const BaseStorage& base);
  ~WeightlessModel();

  CausalLm& model() { return *model_; }
  /// Memory of each of `ranks` ranks on one host with micro-batches of up to this many tokens and documents, without
  /// samples and checkpoint copies. UserError when the recipe's strategy does not support that many ranks.
  MemoryPlan plan(std::int64_t tokens, std::int64_t documents, int ranks = 1);
  /// Bytes on disk of the result, and of a checkpoint.
  std::size_t result_bytes() const;
  std::size_t checkpoint_bytes() const;

 private:
  std::int64_t state_floats() const;
  bool rounds_weights() const;

  const Recipe& recipe_;
  bool full_;
  DType matrices_;  // of the base
  std::unique_ptr<ZeroWeights> weights_;
  std::unique_ptr<CausalLm> model_;
};

}  // namespace dml
