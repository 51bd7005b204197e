// The rows of the strategies that shard gradients, and values.
#include "dist/sharded.h"
#include "dist/strategy_rows.h"

namespace dml {

StrategyRows sharded_rows() {
  using Strategy = std::unique_ptr<DistributionStrategy>;
  using Options = DistributionOptions;
  return {{"zero2",
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
            {"dp_shard_size", "shard_frozen_weights"}}},
          {"hybrid_zero2",
           "zero2 among the ranks of a host (or of a group: dp_shard_size), ddp between them; every rank holds all "
           "values (HYBRID_SHARD_ZERO2 of PyTorch's FSDP)",
           {[](Comm& comm, const Options& options) -> Strategy {
              return std::make_unique<Sharded>(comm, group_ranks(comm, options.shard_size), Sharded::Values::whole,
                                               options);
            },
            {"dp_shard_size"}}}};
}

}  // namespace dml
