#include "pipeline/split_loss.h"

#include "pipeline/micro_batch_sums.h"

namespace dml {

SplitLoss split_loss(CausalLm& model, Loader& loader, const Schedule& schedule, Comm& comm) {
  UnitHooks no_hooks;
  std::vector<MicroBatchSum> mine;
  std::int64_t number = 0;
  for (std::int64_t s = 0; s < schedule.steps(); ++s)
    for (std::int64_t m = 0; m < schedule.step(s).micro_batches; ++m, ++number) {
      if (number % comm.size() != comm.rank()) continue;
      PackedBatch batch = loader.load(s, m);
      mine.push_back({number, batch.size(), batch.learned(), model.evaluate(batch, no_hooks)});
    }
  SplitLoss out;
  for (const MicroBatchSum& s : gather_sums(comm, std::move(mine))) {
    out.sum += s.loss;
    out.tokens += s.tokens;
    out.learned += s.learned;
  }
  return out;
}

}  // namespace dml
