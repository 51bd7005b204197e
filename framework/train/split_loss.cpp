#include "train/split_loss.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "train/passes_in_step.h"

namespace dml {
namespace {

// Losses of documents, added up by micro-batch and part: index = micro-batch · parts + part.
class PartSums {
 public:
  explicit PartSums(const LossDivision& division) : division_(division) {}

  /// Room for the losses of a micro-batch's documents; none without a division.
  std::span<DocumentLoss> documents(const PackedBatch& batch) {
    documents_.resize(division_.count > 0 ? static_cast<std::size_t>(batch.documents()) : 0);
    return documents_;
  }
  /// Counts documents() as those of micro-batch `number` of the whole list.
  void add(std::int64_t number, std::int64_t step, std::int64_t micro_batch) {
    if (division_.count == 0) return;
    division_.of(step, micro_batch, part_of_);
    DML_CHECK(part_of_.size() == documents_.size());
    const std::size_t first = sums_.size();
    for (std::size_t g = 0; g < division_.count; ++g)
      sums_.push_back({.index = number * static_cast<std::int64_t>(division_.count) + static_cast<std::int64_t>(g)});
    for (std::size_t d = 0; d < documents_.size(); ++d) {
      LossSums& sum = sums_[first + static_cast<std::size_t>(part_of_[d])].losses;
      sum.loss += documents_[d].loss;
      sum.denominator += documents_[d].denominator;
    }
  }
  /// A collective.
  std::vector<DocumentLoss> gathered(Comm& comm) {
    std::vector<DocumentLoss> out(division_.count);
    if (division_.count == 0) return out;
    for (const MicroBatchSum& sum : gather_sums(comm, std::move(sums_))) {
      DocumentLoss& part = out[static_cast<std::size_t>(sum.index) % division_.count];
      part.loss += sum.losses.loss;
      part.denominator += sum.losses.denominator;
    }
    return out;
  }

 private:
  const LossDivision& division_;
  std::vector<DocumentLoss> documents_;
  std::vector<std::int32_t> part_of_;
  std::vector<MicroBatchSum> sums_;
};

}  // namespace

SplitLoss split_loss(const SplitPasses& p, const LossDivision& division) {
  std::vector<MicroBatchSum> mine;
  PartSums by_part(division);
  std::vector<std::pair<std::int64_t, std::int64_t>> all;  // step, micro-batch
  for (std::int64_t s = 0; s < p.schedule.steps(); ++s)
    for (std::int64_t m = 0; m < p.schedule.step(s).micro_batches; ++m) all.push_back({s, m});
  const auto count = static_cast<std::int64_t>(all.size());
  const std::function<PackedBatch(std::int64_t)> load = [&](std::int64_t number) {
    const auto [s, m] = all[static_cast<std::size_t>(number)];
    return p.loader.load(s, m);
  };
  p.objective.begin({count, load, p.model, p.hooks, p.comm});
  std::int64_t done = 0;  // by all ranks
  passes_in_step(p.comm, count, [&](std::int64_t number, bool own) {
    const PackedBatch batch = load(number);
    const LossSums losses = p.objective.evaluate(p.model, batch, p.hooks, by_part.documents(batch));
    if (own) {
      const auto [s, m] = all[static_cast<std::size_t>(number)];
      mine.push_back({number, batch.size(), batch.trained(), losses});
      by_part.add(number, s, m);
    }
    p.each(done = std::min(done + p.comm.size(), count), count);
  });
  return {added_up(gather_sums(p.comm, std::move(mine))), by_part.gathered(p.comm)};
}

}  // namespace dml
