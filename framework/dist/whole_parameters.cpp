#include "dist/whole_parameters.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "core/rounding.h"
#include "dist/float_work.h"

namespace dml {
namespace {

std::int64_t in_arena(std::int64_t bytes) { return round_up(bytes, static_cast<std::int64_t>(Arena::kAlignment)); }

}  // namespace

WholeParameters::WholeParameters(const ParameterStore& store, std::span<const PartRef> parts, const StateLayout& layout,
                                 int ranks, int rank)
    : store_(&store),
      ranks_(ranks),
      rank_(rank),
      width_(store.value_width()),
      of_rank_(static_cast<std::size_t>(ranks)) {
  for (const Unit& unit : store.units())
    for (const Parameter& p : unit.parameters) {
      if (!layout.whole(p)) continue;
      Cut cut{&p, unit.number, 0, {}};
      const std::int64_t first = p.offset + p.trained_first, last = p.offset + p.trained_end();
      for (std::size_t s = 0; s < parts.size(); ++s)
        for (int r = 0; parts[s].unit == unit.number && r < ranks; ++r) {
          const ShardRange range = shard_range(parts[s].size, r, ranks);
          const std::int64_t from = std::max(first, parts[s].first + range.first),
                             to = std::min(last, parts[s].first + range.last);
          if (from < to) cut.shards.push_back({r, s, from - p.offset, to - from});
        }
      if (cut.shards.size() > 1) cuts_.push_back(std::move(cut));
    }
  // Greedy balancing: the largest parameter first, each to the rank with the least assigned so far.
  std::vector<std::size_t> order(cuts_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return cuts_[i].parameter->trained_size(); });
  std::vector<std::int64_t> load(static_cast<std::size_t>(ranks));
  for (std::size_t i : order) {
    const auto least = static_cast<std::size_t>(std::ranges::min_element(load) - load.begin());
    Cut& cut = cuts_[i];
    cut.owner = static_cast<int>(least);
    load[least] += cut.parameter->trained_size();
    of_rank_[least].push_back(i);
    rounds_ = std::max(rounds_, of_rank_[least].size());
    largest_ = std::max(largest_, in_arena(cut.parameter->trained_size()));
    std::vector<std::size_t> shards(static_cast<std::size_t>(ranks));
    for (const RankShard& p : cut.shards)
      most_shards_ = std::max(most_shards_, ++shards[static_cast<std::size_t>(p.rank)]);
  }
  for (std::size_t i : of_rank_[static_cast<std::size_t>(rank)]) {
    const Parameter& p = *cuts_[i].parameter;
    const std::int64_t size = p.trained_size();
    owned_.push_back({&p, cuts_[i].unit, 0, p.trained_first, size, {}, {}, {}});
    state_bytes_ += in_arena(layout.floats(p, size) * static_cast<std::int64_t>(sizeof(float)));
    state_floats_.push_back(layout.floats(p, size));
  }
}

void WholeParameters::allocate() {
  if (cuts_.empty()) return;
  state_ = Arena(static_cast<std::size_t>(state_bytes_));
  room_ = Arena(static_cast<std::size_t>(room_bytes()));
  for (std::size_t i = 0; i < owned_.size(); ++i) owned_[i].state = state_.take<float>(state_floats_[i]);
}

bool WholeParameters::is_cut(const Shard& shard) const {
  return std::ranges::any_of(cuts_, [&](const Cut& cut) { return cut.parameter == shard.parameter; });
}

std::span<std::byte> WholeParameters::own_shard(const RankShard& shard, const Cut& cut, Field field) const {
  for (const Shard& s : shards_)
    if (s.parameter == cut.parameter && s.first == shard.first) return field.bytes(s);
  DML_CHECK(false, "no shard of {} at {}", cut.parameter->name, shard.first);
  return {};
}

// Exchanges the n-th shard of every rank at once, since an exchange has one entry per rank.
void WholeParameters::exchange(Comm& comm, std::size_t round, Direction direction, Field field, std::byte* whole) {
  const auto ranks = static_cast<std::size_t>(ranks_);
  std::vector<std::unique_ptr<Pending>> pending;
  for (std::size_t n = 0; n < most_shards_; ++n) {
    std::vector<std::span<const std::byte>> send(ranks);
    std::vector<std::span<std::byte>> receive(ranks);
    for (std::size_t owner = 0; owner < ranks; ++owner) {
      if (round >= of_rank_[owner].size()) continue;
      const Cut& cut = cuts_[of_rank_[owner][round]];
      std::vector<std::size_t> seen(ranks);
      for (const RankShard& shard : cut.shards) {
        const auto holder = static_cast<std::size_t>(shard.rank), me = static_cast<std::size_t>(rank_);
        if (seen[holder]++ != n || (holder != me && owner != me)) continue;
        std::span<std::byte> stored, in_owner;  // the shard, and its range of the owner's buffer
        if (holder == me) stored = own_shard(shard, cut, field);
        if (owner == me)
          in_owner = {whole + (shard.first - cut.parameter->trained_first) * field.width,
                      static_cast<std::size_t>(shard.size * field.width)};
        const bool gather = direction == Direction::to_owner;
        if (holder == owner)
          copy_bytes((gather ? in_owner : stored).data(), (gather ? stored : in_owner).data(), stored.size());
        else if (holder == me && gather) send[owner] = stored;
        else if (holder == me) receive[owner] = stored;
        else if (gather) receive[holder] = in_owner;
        else send[holder] = in_owner;
      }
    }
    if (ranks_ > 1)
      pending.push_back(comm.exchange(std::move(send), std::move(receive), {"exchange of whole parameters"}));
  }
  for (auto& p : pending) p->wait();
}

void WholeParameters::update(Comm& comm, std::span<Shard> shards, const Rule& rule, Inputs inputs) {
  if (cuts_.empty()) return rule(shards);
  shards_ = shards;
  plain_.clear();
  for (const Shard& s : shards)
    if (!is_cut(s)) plain_.push_back(s);
  rule(plain_);
  Arena::Scope scope(room_);
  std::byte* values_at = room_.take<std::byte>(largest_ * width_).data();
  auto* gradients_at = room_.take<float>(largest_).data();
  for (std::size_t round = 0; round < rounds_; ++round) {
    exchange(comm, round, Direction::to_owner, values(), values_at);
    if (inputs == Inputs::values_and_gradients)
      exchange(comm, round, Direction::to_owner, gradients(), reinterpret_cast<std::byte*>(gradients_at));
    if (round < owned_.size()) {
      Shard& whole = owned_[round];
      bind_values(whole, *store_, values_at);
      if (inputs == Inputs::values_and_gradients) whole.grad = {gradients_at, static_cast<std::size_t>(whole.size)};
      rule({&whole, 1});
      whole.value = whole.grad = {};
      whole.value16 = {};
    }
    exchange(comm, round, Direction::from_owner, values(), values_at);
  }
}

}  // namespace dml
