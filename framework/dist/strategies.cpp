// The table of distribution strategies.
#include "dist/replicated.h"

namespace dml {

Registry<StrategyFactory>& strategies() {
  static Registry<StrategyFactory> registry(
      "distribution strategy",
      {{"none", "one rank",
        [](Comm& comm) -> std::unique_ptr<DistributionStrategy> {
          if (comm.size() > 1)
            throw UserError("distribution: none is for one rank, but {} were started; choose ddp or zero1", comm.size());
          return std::make_unique<Replicated>(comm, Replicated::Updates::everything);
        }},
       {"ddp", "every rank holds and updates everything; gradients are summed while the backward pass goes on",
        [](Comm& comm) -> std::unique_ptr<DistributionStrategy> {
          return std::make_unique<Replicated>(comm, Replicated::Updates::everything);
        }},
       {"zero1", "like ddp, but each rank keeps the optimizer state of its share only and updates that share",
        [](Comm& comm) -> std::unique_ptr<DistributionStrategy> {
          return std::make_unique<Replicated>(comm, Replicated::Updates::own_slices);
        }}});
  return registry;
}

}  // namespace dml
