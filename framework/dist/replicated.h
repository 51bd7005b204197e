// Strategies in which every rank holds all values and full gradient buffers: ddp, where every rank updates all values,
// and zero1, where a rank holds optimizer state for its own shards only and updates these, after which values are
// all-gathered. On one rank (`none`) nothing is exchanged.
#pragma once

#include <memory>
#include <vector>

#include "dist/gradient_sum.h"
#include "dist/strategy.h"
#include "dist/whole_parameters.h"

namespace dml {

class Replicated : public DistributionStrategy {
 public:
  enum class Updates { everything, own_shards };
  Replicated(Comm& comm, Updates updates, const DistributionOptions& options)
      : comm_(comm), updates_(updates), options_(options) {}

  void adopt(ParameterStore& store, const StateLayout& state) override;
  MicroBatches share(std::int64_t total) const override { return contiguous_share(total, comm_.rank(), comm_.size()); }
  void begin_step(MicroBatches mine, std::int64_t total) override { gradients_->begin_step(mine, total); }
  void begin_micro_step(std::int64_t index) override { gradients_->begin_micro_step(index); }
  std::span<Shard> finish_gradients() override;
  void update(const std::function<void(std::span<const Shard>)>& rule) override { whole_.update(comm_, shards_, rule); }
  void update_values(const std::function<void(std::span<const Shard>)>& rule) override {
    whole_.update(comm_, shards_, rule, WholeParameters::Inputs::values);
  }
  double squared_gradient_norm() override;
  std::span<Shard> shards() override { return shards_; }
  std::span<Shard> whole_states() override { return whole_.owned(); }
  int slices() const override { return updates_ == Updates::everything ? 1 : comm_.size(); }
  void publish() override;
  void end_step() override;
  void poll() override { gradients_->poll(); }
  void on_first_rank(const std::function<void(const Show& show)>& read) override;
  std::span<const std::span<bf16>> residuals() override { return gradients_->residuals(); }
  bool holds_bf16() const override { return true; }
  Comm* replica_group() override { return updates_ == Updates::everything ? &comm_ : nullptr; }
  Memory memory(const ParameterStore& store, const StateLayout& state,
                std::int64_t micro_batches_per_rank) const override;

  void before_backward(int) override { gradients_->poll(); }
  void after_backward(int unit) override { gradients_->unit_ready(static_cast<std::size_t>(unit)); }

 private:
  ShardRange owned(const PartRef& unit) const;
  WholeParameters whole_parameters(const ParameterStore& store, const StateLayout& state) const;

  Comm& comm_;
  Updates updates_;
  DistributionOptions options_;
  ParameterStore* store_ = nullptr;
  std::unique_ptr<GradientSum> gradients_;
  Arena state_;
  std::vector<PartRef> units_;
  std::vector<Shard> shards_;
  WholeParameters whole_;
};

}  // namespace dml
