// The table of distribution strategies.
#include "core/error.h"
#include "dist/replicated.h"
#include "dist/sharded.h"

namespace dml {

Registry<StrategyKind>& strategies() {
  using Strategy = std::unique_ptr<DistributionStrategy>;
  using Options = DistributionOptions;
  static Registry<StrategyKind> registry(
      "distribution strategy",
      {{"none",
        "one rank",
        {[](Comm& comm, const Options& options) -> Strategy {
           if (comm.size() > 1)
             throw UserError("distribution: none is for one rank, but {} ranks were started; choose ddp or zero1",
                             comm.size());
           return std::make_unique<Replicated>(comm, Replicated::Updates::everything, options);
         },
         {},
         false}},
       {"ddp",
        "every rank holds and updates everything; gradients are summed during the backward pass",
        {[](Comm& comm, const Options& options) -> Strategy {
           return std::make_unique<Replicated>(comm, Replicated::Updates::everything, options);
         },
         {},
         false}},
       {"zero1",
        "like ddp, but each rank keeps the optimizer state of its share only and updates that share",
        {[](Comm& comm, const Options& options) -> Strategy {
          return std::make_unique<Replicated>(comm, Replicated::Updates::own_shards, options);
        }}},
       {"zero2",
        "like zero1, and each rank keeps the summed gradients of its share only",
        {[](Comm& comm, const Options& options) -> Strategy {
          return std::make_unique<Sharded>(comm, one_group(comm), Sharded::Values::whole, options);
        }}},
       {"zero3",
        "like zero2, and trained values are gathered only while they are needed",
        {[](Comm& comm, const Options& options) -> Strategy {
           return std::make_unique<Sharded>(comm, one_group(comm), Sharded::Values::sharded, options);
         },
         {"shard_frozen_weights"}}},
       {"hybrid",
        "zero3 among the ranks of a host (or of a group: dp_shard_size), ddp between them",
        {[](Comm& comm, const Options& options) -> Strategy {
           return std::make_unique<Sharded>(comm, group_ranks(comm, options.shard_size), Sharded::Values::sharded,
                                            options);
         },
         {"dp_shard_size", "shard_frozen_weights"}}}});
  return registry;
}

}  // namespace dml
