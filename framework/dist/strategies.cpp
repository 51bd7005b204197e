// The table of distribution strategies.
#include "dist/replicated.h"
#include "dist/sharded.h"

namespace dml {

Registry<StrategyFactory>& strategies() {
  static Registry<StrategyFactory> registry(
      "distribution strategy",
      {{"none", "one rank",
        [](Comm& comm) -> std::unique_ptr<DistributionStrategy> {
          if (comm.size() > 1)
            throw UserError("distribution: none is for one rank, but {} were started; choose ddp or zero1",
                            comm.size());
          return std::make_unique<Replicated>(comm, Replicated::Updates::everything);
        }},
       {"ddp", "every rank holds and updates everything; gradients are summed while the backward pass goes on",
        [](Comm& comm) -> std::unique_ptr<DistributionStrategy> {
          return std::make_unique<Replicated>(comm, Replicated::Updates::everything);
        }},
       {"zero1", "like ddp, but each rank keeps the optimizer state of its share only and updates that share",
        [](Comm& comm) -> std::unique_ptr<DistributionStrategy> {
          return std::make_unique<Replicated>(comm, Replicated::Updates::own_slices);
        }},
       {"zero2", "like zero1, and each rank keeps the summed gradients of its share only",
        [](Comm& comm) -> std::unique_ptr<DistributionStrategy> {
          return std::make_unique<Sharded>(comm, Sharded::Values::whole);
        }},
       {"zero3", "like zero2, and trained values are gathered only while they are needed",
        [](Comm& comm) -> std::unique_ptr<DistributionStrategy> {
          return std::make_unique<Sharded>(comm, Sharded::Values::sharded);
        }}});
  return registry;
}

}  // namespace dml
