// ReLoRA: every jagged_restart_steps steps the adapter is merged into the base and begins anew, most of the optimizer's
// memory is cut away, and the learning rate rises again (optim/schedule.h). What comes out is a whole model.
//
// A restart belongs to the step after it: a checkpoint made at the same moment holds what was before the merge, and a
// run that resumes from there merges first.
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

  /// Whether a restart comes between the first `done` steps and the next one.
  bool due(std::int64_t done) const { return done > 0 && done % every_ == 0; }
  /// A collective.
  void restart(std::int64_t done, DistributionStrategy& strategy, const StateLayout& state, Comm& comm);

  /// Merged weights and trained values of this moment, into the folder of a checkpoint.
  void save(const std::string& folder, std::int64_t done) const;
  void load(const std::string& checkpoint);

  /// Bytes of the base's files that are not used any more since their values have been copied.
  std::size_t replaced() const;
  /// The merged weights in a checkpoint.
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
