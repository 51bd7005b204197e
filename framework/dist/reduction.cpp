#include "dist/reduction.h"

#include <numeric>

#include "core/error.h"

namespace dml {
namespace {

constexpr std::int64_t kAllAtOnce = 16 << 20;  // floats: below it, buffers are allocated for all units at once

// The size of the receive ring: the shards of all units where that is small; else the largest unit or a quarter of all,
// which keeps the network busy.
std::int64_t room_needed(std::span<const std::int64_t> need) {
  std::int64_t all = std::accumulate(need.begin(), need.end(), std::int64_t{0}), largest = 0;
  for (std::int64_t n : need) largest = std::max(largest, n);
  return all <= kAllAtOnce ? all : std::max(largest, all / 4 / 16 * 16);
}

}  // namespace

Reduction::Reduction(Comm& comm, std::vector<std::int64_t> sizes, Sums sums, Wire wire)
    : comm_(comm),
      sizes_(std::move(sizes)),
      sums_(sums),
      wire_(wire),
      shares_(static_cast<std::size_t>(comm.size())),
      exchanges_(sizes_.size()) {
  DML_CHECK(sizes_.size() <= kMaxParts);
}

TreeSchedule Reduction::schedule(MicroBatches share, std::int64_t total, int rank, bool tree) {
  if (tree) return tree_schedule(share, total);
  auto count = static_cast<std::size_t>(share.count);
  return {std::vector<int>(count), std::vector<int>(count), {{0, rank}}, 1};
}

void Reduction::begin(MicroBatches mine, std::int64_t total, bool tree) {
  total_ = total;
  tree_ = tree;
  for (Exchange& exchange : exchanges_) exchange.state = Exchange::idle;
  next_ = exchanges_.size();
  my_share_ = {mine.first, mine.count, total};
  // The other ranks' shares are awaited only before the first unit is exchanged.
  std::vector<std::span<const std::byte>> send(shares_.size(), std::as_bytes(std::span(&my_share_, 1)));
  std::vector<std::span<std::byte>> receive;
  for (Share& share : shares_) receive.push_back(std::as_writable_bytes(std::span(&share, 1)));
  shares_pending_ =
      comm_.exchange(std::move(send), std::move(receive), {"exchange of micro-batch ranges", kSharesChannel});
}

void Reduction::receive_shares() {
  if (!shares_pending_) return;
  shares_pending_->wait();
  shares_pending_.reset();
  auto same = [](const Share& a, const Share& b) {
    return a.first == b.first && a.count == b.count && a.total == b.total;
  };
  if (std::equal(shares_.begin(), shares_.end(), known_shares_.begin(), known_shares_.end(), same)) return;
  nodes_.clear();
  std::vector<TreeNode> all;
  std::int64_t next = 0;
  rounds_ = 0;
  for (std::size_t r = 0; r < shares_.size(); ++r) {
    const Share& share = shares_[r];
    if (share.total != total_ || share.first != next || share.count < 0 || share.first + share.count > total_)
      throw Error(
          ExitCode::distributed,
          fmt::format("rank {} computes micro-batches {} to {} of {}, where rank {} expects it to begin with {} of {}",
                      r, share.first, share.first + share.count, share.total, comm_.rank(), next, total_));
    next += share.count;
    nodes_.push_back(schedule({share.first, share.count}, total_, static_cast<int>(r), tree_).nodes);
    all.insert(all.end(), nodes_.back().begin(), nodes_.back().end());
    rounds_ = std::max(rounds_, nodes_.back().size());
  }
  DML_CHECK(next == total_ && rounds_ < static_cast<std::size_t>(kChannelsPerPart), "micro-batches up to {} of {}",
            next, total_);
  additions_ = additions_to_root(all, tree_ ? total_ : comm_.size());
  known_shares_ = shares_;

  auto others = static_cast<std::int64_t>(all.size() - nodes_[static_cast<std::size_t>(comm_.rank())].size());
  std::vector<std::int64_t> need;
  for (std::size_t u = 0; u < sizes_.size(); ++u) need.push_back(others * own(u).size());
  std::int64_t room = room_needed(need);
  if (room > ring_size_) {
    received_ = Arena(static_cast<std::size_t>(room) * sizeof(float));
    ring_ = received_.take<float>(room).data();
    ring_size_ = room;
  }
}

void Reduction::ready(std::size_t unit, std::span<float* const> nodes, float* result, bf16* residual) {
  Exchange& exchange = exchanges_[unit];
  DML_CHECK(exchange.state == Exchange::idle, "a unit's gradient became final twice");
  exchange.mine.assign(nodes.begin(), nodes.end());
  exchange.result = result;
  exchange.residual = residual;
  exchange.state = Exchange::waiting;
  start_ready();
}

void Reduction::start_ready() {
  while (next_ > 0 && (exchanges_[next_ - 1].state == Exchange::waiting || sizes_[next_ - 1] == 0)) start(--next_);
}

float* Reduction::make_room(std::size_t unit) {
  auto others =
      static_cast<std::int64_t>(additions_.size() + 1 - nodes_[static_cast<std::size_t>(comm_.rank())].size());
  std::int64_t need = others * own(unit).size();
  if (need == 0) return nullptr;
  while (true) {
    while (!rooms_.empty() && exchanges_[rooms_.front().unit].state != Exchange::collecting) rooms_.pop_front();
    if (rooms_.empty()) ring_head_ = 0;
    std::int64_t oldest = rooms_.empty() ? ring_size_ : rooms_.front().first;
    // Not wrapped round: what is taken lies in [oldest, head), and the room after it or before it is free.
    bool wrapped = !rooms_.empty() && ring_head_ <= oldest;
    std::int64_t end = wrapped || rooms_.empty() ? oldest : ring_size_;
    if (!wrapped && !rooms_.empty() && ring_head_ + need > ring_size_ && need <= oldest) {
      ring_head_ = 0;
      end = oldest;
    }
    if (ring_head_ + need <= end) {
      rooms_.push_back({unit, ring_head_});
      ring_head_ += need;
      return ring_ + rooms_.back().first;
    }
    DML_CHECK(!rooms_.empty());
    while (exchanges_[rooms_.front().unit].state == Exchange::collecting) advance(rooms_.front().unit, true);
  }
}

void Reduction::start(std::size_t unit) {
  Exchange& exchange = exchanges_[unit];
  if (sizes_[unit] == 0 || comm_.size() == 1) {
    DML_CHECK(sizes_[unit] == 0 || exchange.mine == std::vector{exchange.result});
    exchange.state = Exchange::done;
    return;
  }
  receive_shares();
  float* room = make_room(unit);
  auto ranks = static_cast<std::size_t>(comm_.size()), me = static_cast<std::size_t>(comm_.rank());
  std::int64_t size = own(unit).size();
  DML_CHECK(exchange.mine.size() == nodes_[me].size());
  exchange.nodes.clear();
  exchange.parts.clear();
  for (std::size_t r = 0; r < ranks; ++r) {
    ShardRange peer = shard(unit, static_cast<int>(r));
    for (std::size_t n = 0; n < nodes_[r].size(); ++n) {
      exchange.parts.push_back(r == me ? exchange.mine[n] + own(unit).first : room);
      if (r != me) room += size;
    }
    // The rounding error of one node is added to the next.
    for (float* node : exchange.mine)
      if (r != me)
        wire_.pack(node + peer.first, peer.size(), exchange.residual ? exchange.residual + peer.first : nullptr);
  }
  for (std::size_t n = 0; n < rounds_; ++n) {
    std::vector<std::span<const std::byte>> send(ranks);
    std::vector<std::span<std::byte>> receive(ranks);
    std::size_t part = 0;  // first part of rank r
    for (std::size_t r = 0; r < ranks; part += nodes_[r++].size()) {
      if (r == me) continue;
      ShardRange peer = shard(unit, static_cast<int>(r));
      if (n < nodes_[me].size()) send[r] = wire_.bytes(exchange.mine[n] + peer.first, peer.size());
      if (n < nodes_[r].size()) receive[r] = wire_.bytes(exchange.parts[part + n], size);
    }
    exchange.nodes.push_back(
        comm_.exchange(std::move(send), std::move(receive), {"exchange of gradients", part_channel(unit, n + 1)}));
  }
  exchange.state = Exchange::collecting;
}

void Reduction::sum_and_broadcast(std::size_t unit) {
  Exchange& exchange = exchanges_[unit];
  exchange.nodes.clear();
  const ShardRange mine = own(unit);
  std::size_t part = 0;
  for (std::size_t r = 0; r < nodes_.size(); ++r)
    for (std::size_t n = 0; n < nodes_[r].size(); ++n, ++part)
      if (r != static_cast<std::size_t>(comm_.rank())) wire_.unpack(exchange.parts[part], mine.size());
  add_parts(exchange.parts, additions_, mine.size(), exchange.result + mine.first);
  exchange.state = Exchange::done;
  if (sums_ == Sums::at_owner) return;
  // All ranks use the rounded values that were sent, the owner included.
  wire_.pack(exchange.result + mine.first, mine.size(), exchange.residual ? exchange.residual + mine.first : nullptr);
  exchange.sums = gather_shards(comm_, sizes_[unit], exchange.result + mine.first, exchange.result,
                                {"broadcast of gradient sums", part_channel(unit, 0)}, wire_);
  exchange.state = Exchange::broadcasting;
}

bool Reduction::advance(std::size_t unit, bool block) {
  Exchange& exchange = exchanges_[unit];
  if (exchange.state == Exchange::collecting) {
    for (auto& pending : exchange.nodes) {
      if (block) pending->wait();
      else if (!pending->test()) return false;
    }
    sum_and_broadcast(unit);
  } else if (exchange.state == Exchange::broadcasting) {
    if (block) exchange.sums->wait();
    else if (!exchange.sums->test()) return false;
    exchange.sums.reset();
    for (int r = 0; r < comm_.size(); ++r) {
      ShardRange part = shard(unit, r);
      wire_.unpack(exchange.result + part.first, part.size());
    }
    exchange.state = Exchange::done;
  }
  return exchange.state == Exchange::done;
}

void Reduction::poll() {
  for (std::size_t u = exchanges_.size(); u-- > next_;) advance(u, false);
}

void Reduction::finish() {
  start_ready();
  DML_CHECK(next_ == 0, "a unit's gradient never became final");
  receive_shares();
  for (std::size_t u = exchanges_.size(); u-- > 0;) {
    while (exchanges_[u].state == Exchange::collecting) advance(u, true);
    poll();
  }
  for (std::size_t u = exchanges_.size(); u-- > 0;)
    while (!advance(u, true)) {
    }
  rooms_.clear();
}

std::int64_t Reduction::room(std::span<const std::int64_t> sizes, std::span<const MicroBatches> shares,
                             std::int64_t total, bool tree) {
  const auto ranks = static_cast<int>(shares.size());
  std::vector<std::int64_t> held;
  for (int r = 0; r < ranks; ++r)
    held.push_back(
        static_cast<std::int64_t>(schedule(shares[static_cast<std::size_t>(r)], total, r, tree).nodes.size()));
  const std::int64_t all = std::accumulate(held.begin(), held.end(), std::int64_t{0});
  std::int64_t most = 0;
  for (int r = 0; r < ranks; ++r) {
    std::vector<std::int64_t> need;
    for (std::int64_t size : sizes)
      need.push_back((all - held[static_cast<std::size_t>(r)]) * shard_range(size, r, ranks).size());
    most = std::max(most, room_needed(need));
  }
  return most;
}

}  // namespace dml
