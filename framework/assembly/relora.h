// ReLoRA: every jagged_restart_steps steps the adapter is merged into the base and reinitialized, most of the
// optimizer's state is pruned, and the learning rate warms up again (optim/schedule.h). The result is a full model.
//
// A restart belongs to the step after it: a checkpoint of the same step holds the state before the merge, and a run
// that resumes from it merges first.
#pragma once

#include <cstdint>
#include <string>

#include "dist/comm.h"
#include "dist/strategy.h"
#include "model/adapted_weights.h"
#include "optim/prune.h"
#include "recipe/recipe.h"

namespace dml {

class Relora {
 public:
  Relora(CausalLm& model, const Recipe& recipe);

  /// Whether a restart is due after `done` steps.
  bool due(std::int64_t done) const { return done > 0 && done % every_ == 0; }
  /// Merges, reinitializes and prunes. A collective.
  void restart(std::int64_t done, DistributionStrategy& strategy, const StateLayout& state, Comm& comm);

  /// Writes merged weights and trained values into the folder of a checkpoint; load() reads them.
  void save(const std::string& folder, std::int64_t done) const;
  void load(const std::string& checkpoint);

  /// Bytes of the base's files that are no longer used because their values were copied.
  std::size_t unused_base_bytes() const;
  /// Bytes of the merged weights in a checkpoint.
  std::size_t bytes() const;
  std::string description() const;

 private:
  void prune(std::int64_t number, DistributionStrategy& strategy, const StateLayout& layout, Comm& comm) const;
  bool has_merged(std::int64_t done) const { return done > every_; }

  CausalLm& model_;
  AdaptedWeights weights_;
  std::int64_t every_;
  double prune_ratio_;
  PruneMethod method_;
  std::string init_;
  std::uint64_t seed_;
};

}  // namespace dml
