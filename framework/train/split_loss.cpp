#include "train/split_loss.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace dml {
namespace {

// Losses of documents, added up by micro-batch and group: index = micro-batch · groups + group.
class GroupSums {
 public:
  explicit GroupSums(const DocumentGroups& groups) : groups_(groups) {}

  /// Room for the losses of a micro-batch's documents; none without groups.
  std::span<DocumentLoss> documents(const PackedBatch& batch) {
    documents_.resize(groups_.count > 0 ? static_cast<std::size_t>(batch.documents()) : 0);
    return documents_;
  }
  /// Counts documents() as those of micro-batch `number` of the whole list.
  void add(std::int64_t number, std::int64_t step, std::int64_t micro_batch) {
    if (groups_.count == 0) return;
    groups_.of(step, micro_batch, group_of_);
    DML_CHECK(group_of_.size() == documents_.size());
    const std::size_t first = sums_.size();
    for (std::size_t g = 0; g < groups_.count; ++g)
      sums_.push_back({.index = number * static_cast<std::int64_t>(groups_.count) + static_cast<std::int64_t>(g)});
    for (std::size_t d = 0; d < documents_.size(); ++d) {
      LossSums& sum = sums_[first + static_cast<std::size_t>(group_of_[d])].losses;
      sum.loss += documents_[d].loss;
      sum.denominator += documents_[d].denominator;
    }
  }
  /// A collective.
  std::vector<DocumentLoss> gathered(Comm& comm) {
    std::vector<DocumentLoss> out(groups_.count);
    if (groups_.count == 0) return out;
    for (const MicroBatchSum& sum : gather_sums(comm, std::move(sums_))) {
      DocumentLoss& group = out[static_cast<std::size_t>(sum.index) % groups_.count];
      group.loss += sum.losses.loss;
      group.denominator += sum.losses.denominator;
    }
    return out;
  }

 private:
  const DocumentGroups& groups_;
  std::vector<DocumentLoss> documents_;
  std::vector<std::int32_t> group_of_;
  std::vector<MicroBatchSum> sums_;
};

}  // namespace

SplitLoss split_loss(const SplitPasses& p, const DocumentGroups& groups) {
  std::vector<MicroBatchSum> mine;
  GroupSums by_group(groups);
  std::vector<std::pair<std::int64_t, std::int64_t>> all;  // step, micro-batch
  for (std::int64_t s = 0; s < p.schedule.steps(); ++s)
    for (std::int64_t m = 0; m < p.schedule.step(s).micro_batches; ++m) all.push_back({s, m});
  const auto count = static_cast<std::int64_t>(all.size());
  const std::function<PackedBatch(std::int64_t)> load = [&](std::int64_t number) {
    const auto [s, m] = all[static_cast<std::size_t>(number)];
    return p.loader.load(s, m);
  };
  p.objective.begin({count, load, p.model, p.hooks, p.comm});
  for (std::int64_t first = 0; first < count; first += p.comm.size()) {
    // Where values are sharded a pass is a collective: a rank without a micro-batch of its own computes the last one, too.
    const std::int64_t number = first + p.comm.rank();
    const auto [s, m] = all[static_cast<std::size_t>(std::min(number, count - 1))];
    const PackedBatch batch = load(std::min(number, count - 1));
    const LossSums losses = p.objective.evaluate(p.model, batch, p.hooks, by_group.documents(batch));
    if (number < count) {
      mine.push_back({number, batch.size(), batch.learned(), losses});
      by_group.add(number, s, m);
    }
    p.each(std::min(first + p.comm.size(), count), count);
  }
  return {added_up(gather_sums(p.comm, std::move(mine))), by_group.gathered(p.comm)};
}

}  // namespace dml
