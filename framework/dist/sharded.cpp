#include "dist/sharded.h"

#include <cstring>
#include <numeric>

#include "core/parallel.h"
#include "dist/float_work.h"

namespace dml {
namespace {

constexpr std::int64_t kSumBlock = 4096;
constexpr std::size_t kGradients = 1;  // use of part_channel()

std::size_t bytes(std::int64_t floats) { return static_cast<std::size_t>(floats) * sizeof(float); }

std::int64_t total_of(const std::vector<std::int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

}  // namespace

Sharded::Sharded(Comm& comm, const GroupPlace& place, Values values, const DistributionOptions& options)
    : comm_(comm), group_(comm, place.inside), across_(comm, place.across), values_kind_(values), wire_(options.wire) {}

MicroBatches Sharded::share(std::int64_t total) const {
  MicroBatches group_range = range(total), mine = interleaved_share(group_range.count, group_.rank(), group_.size());
  mine.first += group_range.first;
  return mine;
}

void Sharded::announce(ParameterStore& store) const {
  store.values_in_parts = shards_values();
  store.gradients_in_parts = true;
}

void Sharded::adopt(ParameterStore& store, const StateLayout& state) {
  store_ = &store;
  parts_ = unit_parts(store);
  DML_CHECK(!store.units().empty() && parts_.size() <= kMaxParts);
  first_of_ = first_parts(parts_);
  auto owned = [this](const PartRef& part) { return own(part); };
  Arena counting = Arena::measuring();
  cut_shards(store, parts_, owned, state, counting);
  state_ = Arena(counting.used());
  shards_ = cut_shards(store, parts_, owned, state, state_);
  whole_ = WholeParameters(store, parts_, state, group_.size(), group_.rank());
  whole_.allocate();
  for (Unit& unit : store.units())
    if (unit.size > 0 && unit.value) comm_.broadcast(unit_bytes(store, unit), 0);

  if (across_.size() > 1)
    between_groups_ = std::make_unique<Reduction>(across_, shard_sizes(parts_), Reduction::Sums::everywhere, wire_);
  residuals_ = Residuals(store, wire_, comm_.size());
  if (shards_values()) values_ = std::make_unique<ShardedValues>(group_, store, parts_);
  for (Shard& shard : shards_) bind_values(shard, store, own_values(shard.part) + in_own(shard) * store.value_width());
  store.widen();

  buffers_ = PartBuffers(store, group_.size(), true);
  gradients_ = Arena(bytes(buffers_.floats()));
  gradients_at_ = gradients_.take<float>(buffers_.floats()).data();
  launched_.resize(parts_.size());
}

std::byte* Sharded::own_values(std::size_t p) const {
  if (values_) return values_->own(p);
  return store_->units()[parts_[p].unit].value.from(parts_[p].first + own(p).first).data;
}

std::vector<std::int64_t> Sharded::shard_sizes(const std::vector<PartRef>& parts) const {
  std::vector<std::int64_t> sizes;
  for (const PartRef& part : parts) sizes.push_back(own(part).size());
  return sizes;
}

std::int64_t Sharded::in_own(const Shard& shard) const {
  return shard.parameter->offset + shard.first - parts_[shard.part].first - own(shard.part).first;
}

bf16* Sharded::residual_of(std::size_t p) const {
  bf16* unit = residuals_.of(parts_[p].unit);
  return unit ? unit + parts_[p].first : nullptr;
}

// ---- gradients

void Sharded::begin_step(MicroBatches mine, std::int64_t total) {
  MicroBatches expected = share(total);
  DML_CHECK(mine.first == expected.first && mine.count == expected.count && mine.stride == expected.stride,
            "sharded gradients need the micro-batches of share()");
  mine_ = mine;
  total_ = total;
  round_ = -1;
  rounds_ = plan_rounds(range(total), total, group_.size());
  if (between_groups_) between_groups_->begin(range(total), total, true);
  launched_.assign(parts_.size(), -1);
  const std::size_t depth = stack_depth(rounds_);
  if (depth <= nodes_.size()) return;
  nodes_.clear();
  sums_ = Arena(bytes(total_of(shard_sizes(parts_))) * depth);
  for (std::size_t n = 0; n < depth; ++n) {
    nodes_.emplace_back();
    for (std::size_t p = 0; p < parts_.size(); ++p) nodes_[n].push_back(sums_.take<float>(own(p).size()).data());
  }
}

void Sharded::begin_micro_step(std::int64_t index) {
  ++round_;
  DML_CHECK(round_ < mine_.count && index == mine_.first + round_ * mine_.stride, "micro-batch {} is out of turn",
            index);
}

void Sharded::bind_gradient(std::size_t p) {
  if (parts_[p].size == 0 || bound(p).grad != nullptr) return;
  finish_exchanges_while([&](const ExchangeInFlight& flight) { return buffers_.exchanges_collide(flight.part, p); });
  bound(p).grad = full_gradient(p);
  zero_floats(bound(p).grad, parts_[p].size);
}

void Sharded::launch(std::size_t p) {
  const std::int64_t size = parts_[p].size;
  if (size == 0) return;
  DML_CHECK(launched_[p] == round_ - 1, "a gradient became final twice, or never, in a micro-step");
  launched_[p] = round_;
  std::int64_t largest = 0;
  for (int r = 0; r < group_.size(); ++r) largest = std::max(largest, shard_range(size, r, group_.size()).size());
  for (std::int64_t first = 0; first < largest; first += buffers_[p].chunk) {
    finish_exchanges_while([&](const ExchangeInFlight& flight) { return buffers_.exchanges_collide(flight.part, p); });
    launch_chunk(p, first);
    in_flight_.back().ends = first + buffers_[p].chunk >= largest;
  }
  bound(p).grad = nullptr;
}

void Sharded::launch_chunk(std::size_t p, std::int64_t first) {
  const PartBuffers::Buffer& buffer = buffers_[p];
  const auto ranks = static_cast<std::size_t>(group_.size()), me = static_cast<std::size_t>(group_.rank());
  const std::size_t leaves = rounds_[static_cast<std::size_t>(launched_[p])].leaves;
  auto cut = [&](std::int64_t at, ShardRange shard) { return std::min(at, shard.size()); };
  const ShardRange mine = own(p);
  ExchangeInFlight flight;
  flight.part = p;
  flight.first = cut(first, mine), flight.last = cut(first + buffer.chunk, mine);
  std::vector<std::span<const std::byte>> send(ranks);
  std::vector<std::span<std::byte>> receive(ranks);
  float* room = gradients_at_ + buffer.room;
  for (std::size_t r = 0; r < ranks; ++r) {
    if (r == me) continue;
    const ShardRange peer = shard_range(parts_[p].size, static_cast<int>(r), group_.size());
    const std::int64_t from = peer.first + cut(first, peer), size = peer.first + cut(first + buffer.chunk, peer) - from;
    if (me < leaves) {
      wire_.pack(full_gradient(p) + from, size, residual_of(p) ? residual_of(p) + from : nullptr);
      send[r] = wire_.bytes(full_gradient(p) + from, size);
    }
    if (r >= leaves) continue;
    receive[r] = wire_.bytes(room, flight.last - flight.first);
    room += flight.last - flight.first;
  }
  flight.pending =
      group_.exchange(std::move(send), std::move(receive), {"exchange of gradients", part_channel(p, kGradients)});
  in_flight_.push_back(std::move(flight));
}

void Sharded::finish_oldest_exchange() {
  in_flight_.front().pending->wait();
  const ExchangeInFlight flight = std::move(in_flight_.front());
  in_flight_.pop_front();
  const std::size_t p = flight.part;
  const std::int64_t size = flight.last - flight.first;
  const GradientRound& round = rounds_[static_cast<std::size_t>(launched_[p])];
  std::vector<float*> terms;
  for (std::size_t n = 0; n < round.held; ++n) terms.push_back(nodes_[n][p] + flight.first);
  float* room = gradients_at_ + buffers_[p].room;
  for (std::size_t r = 0; r < round.leaves; ++r) {
    bool mine = r == static_cast<std::size_t>(group_.rank());
    terms.push_back(mine ? full_gradient(p) + own(p).first + flight.first : room);
    if (mine) continue;
    wire_.unpack(room, size);
    room += size;
  }
  parallel_ranges(size, kSumBlock, [&](std::int64_t first, std::int64_t last) {
    for (auto [to, from] : round.additions)
      add_floats(terms[static_cast<std::size_t>(to)] + first, terms[static_cast<std::size_t>(from)] + first,
                 last - first);
    // kept[i] ≥ i and ascending, so no node is overwritten before it was read.
    for (std::size_t i = 0; i < round.kept.size(); ++i)
      if (float* from = terms[round.kept[i]], *to = nodes_[i][p] + flight.first; from != to)
        std::memcpy(to + first, from + first, bytes(last - first));
  });
  count_work(FloatWork::add, size * std::ssize(round.additions));
  for (std::size_t i = 0; i < round.kept.size(); ++i)
    if (terms[round.kept[i]] != nodes_[i][p] + flight.first) count_work(FloatWork::copy, size);
  if (flight.ends && launched_[p] + 1 == static_cast<std::int64_t>(rounds_.size())) sum_across(p);
}

void Sharded::sum_across(std::size_t p) {
  if (!between_groups_ || own(p).size() == 0) return;
  std::vector<float*> nodes;
  for (std::size_t n = 0; !rounds_.empty() && n < rounds_.back().kept.size(); ++n) nodes.push_back(nodes_[n][p]);
  bf16* residual = residual_of(p);
  between_groups_->ready(p, nodes, nodes_[0][p], residual ? residual + own(p).first : nullptr);
}

void Sharded::before_backward(int unit) {
  auto u = static_cast<std::size_t>(unit);
  enter(u, -1);
  if (in_step()) bind_gradient(first_of_[u]);
  poll();
}

void Sharded::before_gradient(int unit) {
  if (in_step()) bind_gradient(first_of_[static_cast<std::size_t>(unit)]);
}

void Sharded::after_backward(int unit) {
  launch(first_of_[static_cast<std::size_t>(unit)]);
  poll();
}

void Sharded::before_part_gradient(std::size_t unit, std::size_t part) {
  if (in_step()) bind_gradient(first_of_[unit] + part);
  poll();
}

void Sharded::after_part_gradient(std::size_t unit, std::size_t part) {
  launch(first_of_[unit] + part);
  poll();
}

void Sharded::poll() {
  while (!in_flight_.empty() && in_flight_.front().pending->test()) finish_oldest_exchange();
  if (between_groups_ && in_step()) between_groups_->poll();
}

std::span<Shard> Sharded::finish_gradients() {
  DML_CHECK(round_ + 1 == mine_.count, "{} of {} micro-batches were computed", round_ + 1, mine_.count);
  if (mine_.count < static_cast<std::int64_t>(rounds_.size())) {  // other ranks of the group have one more micro-batch
    DML_CHECK(empty_pass_, "no pass to make without a micro-batch");
    ++round_;
    empty_pass_();
  }
  while (!in_flight_.empty()) finish_oldest_exchange();
  for (std::size_t p = 0; p < parts_.size(); ++p)
    DML_CHECK(parts_[p].size == 0 || launched_[p] + 1 == static_cast<std::int64_t>(rounds_.size()),
              "a gradient of {} never became final", store_->units()[parts_[p].unit].name);
  if (between_groups_) {
    if (rounds_.empty())
      for (std::size_t p = parts_.size(); p-- > 0;) sum_across(p);
    between_groups_->finish();
  }
  for (Shard& shard : shards_)
    shard.grad = {nodes_[0][shard.part] + in_own(shard), static_cast<std::size_t>(shard.size)};
  return shards_;
}

double Sharded::squared_gradient_norm() {
  return squared_norm(group_, parts_, [this](std::size_t p) { return nodes_[0][p]; });
}

void Sharded::end_step() {
  for (std::size_t p = 0; p < parts_.size(); ++p) bound(p).grad = nullptr;
  for (Shard& shard : shards_) shard.grad = {};
  total_ = 0;
}

void Sharded::enter(std::size_t u, int direction) {
  if (frozen_) frozen_->need(u, direction);
  if (values_) values_->enter(u, direction);
}

void Sharded::before_values(std::size_t u, std::size_t part, int direction) {
  if (!values_ || values_->shows()) return;
  values_->hold(first_of_[u] + part);
  poll();
  values_->gather_ahead(first_of_[u] + part, direction);
}

void Sharded::publish() {
  if (values_) return values_->forget();
  std::vector<std::unique_ptr<Pending>> pending;
  for (std::size_t p = 0; p < parts_.size(); ++p)
    if (parts_[p].size > 0)
      pending.push_back(gather_value_shards(group_, parts_[p].size, store_->value_width(), own_values(p),
                                            store_->units()[parts_[p].unit].value.from(parts_[p].first).data,
                                            {"gathering of updated values"}));
  for (auto& p : pending) p->wait();
  store_->widen();
}

void Sharded::shard_frozen(const std::vector<std::vector<kernels::Weight*>>& units) {
  if (values_ && group_.size() > 1) frozen_ = std::make_unique<FrozenShards>(group_, units);
}

void Sharded::on_first_rank(const std::function<void(const Show& show)>& read) {
  if (!values_) {
    if (comm_.rank() == 0) read([](std::size_t) {});
    return;
  }
  values_->forget();
  if (frozen_) frozen_->unbind();
  if (across_.rank() == 0) values_->read_on_first_rank(read);  // rank 0 is in the first group
  values_->release_shown();
}

void Sharded::gather_values() {
  if (frozen_) frozen_->unbind();
  if (!values_) return;
  values_->forget();
  values_->gather_all();
}

void Sharded::release_values() {
  if (values_) values_->release_shown();
}

DistributionStrategy::Memory Sharded::memory(const ParameterStore& store, const StateLayout& state,
                                             std::int64_t each) const {
  Memory memory;
  const std::vector<PartRef> parts = unit_parts(store);
  Arena counting = Arena::measuring();
  cut_shards(
      store, parts, [this](const PartRef& part) { return own(part); }, state, counting);
  const WholeParameters whole(store, parts, state, group_.size(), group_.rank());
  memory.state = static_cast<std::int64_t>(counting.used()) + whole.state_bytes();
  const std::int64_t total = each * comm_.size();
  const std::size_t depth = stack_depth(plan_rounds(range(total), total, group_.size()));
  const std::vector<std::int64_t> sizes = shard_sizes(parts);
  const std::int64_t owned = total_of(sizes);
  const PartBuffers gradients(store, group_.size(), true), gathered(store, group_.size(), false);
  std::int64_t received = gradients.floats() - gradients.whole_parts();
  memory.gradients = static_cast<std::int64_t>(bytes(owned) * depth + bytes(gradients.whole_parts()));
  if (across_.size() > 1) {
    std::vector<MicroBatches> shares;
    for (int g = 0; g < across_.size(); ++g) shares.push_back(contiguous_share(total, g, across_.size()));
    received += Reduction::room(sizes, shares, total, true);
  }
  memory.communication =
      whole.room_bytes() + static_cast<std::int64_t>(bytes(received)) + Residuals::bytes(store, wire_, comm_.size());
  memory.values =
      shards_values() ? (owned + gathered.floats()) * store.value_width() + store.widened_bytes() : store.value_bytes();
  return memory;
}

}  // namespace dml
