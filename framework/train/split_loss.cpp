#include "train/split_loss.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace dml {

MicroBatchSum split_loss(CausalLm& model, Objective& objective, Loader& loader, const Schedule& schedule, Comm& comm,
                         UnitHooks& hooks, const std::function<void(std::int64_t, std::int64_t)>& each) {
  std::vector<MicroBatchSum> mine;
  std::vector<std::pair<std::int64_t, std::int64_t>> all;  // step, micro-batch
  for (std::int64_t s = 0; s < schedule.steps(); ++s)
    for (std::int64_t m = 0; m < schedule.step(s).micro_batches; ++m) all.push_back({s, m});
  const auto count = static_cast<std::int64_t>(all.size());
  for (std::int64_t first = 0; first < count; first += comm.size()) {
    // Where values are sharded a pass is a collective: a rank without a micro-batch of its own computes the last one, too.
    std::int64_t number = first + comm.rank();
    auto [s, m] = all[static_cast<std::size_t>(std::min(number, count - 1))];
    PackedBatch batch = loader.load(s, m);
    LossSums losses = objective.evaluate(model, batch, hooks);
    if (number < count) mine.push_back({number, batch.size(), batch.learned(), losses});
    if (each) each(std::min(first + comm.size(), count), count);
  }
  return added_up(gather_sums(comm, std::move(mine)));
}

}  // namespace dml
