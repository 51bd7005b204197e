#include "dist/gradient_sum.h"

#include <cstring>
#include <numeric>

#include "core/parallel.h"
#include "core/profile.h"

namespace dml {
namespace {

constexpr int kCutsChannel = 1;
constexpr std::int64_t kSmall = 16 << 20;  // floats: below it, room is made for all units at once
constexpr std::int64_t kGrain = 1 << 14;

}  // namespace

GradientSum::GradientSum(Comm& comm, ParameterStore& store, Sums sums, bool tree)
    : comm_(comm),
      store_(store),
      sums_(sums),
      tree_(tree),
      cuts_(static_cast<std::size_t>(comm.size())),
      exchanges_(store.units().size()),
      ready_(store.units().size()) {
  DML_CHECK(store.units().size() <= kMostUnits);
}

TreeSchedule GradientSum::schedule(MicroBatches share, std::int64_t total, int rank, bool tree) {
  if (tree) return tree_schedule(share, total);
  auto count = static_cast<std::size_t>(share.count);
  return {std::vector<int>(count), std::vector<int>(count), {{0, rank}}, 1};
}

Slice GradientSum::own(std::size_t unit) const {
  return slice_of(store_.units()[unit].size, comm_.rank(), comm_.size());
}

void GradientSum::begin_step(MicroBatches mine, std::int64_t total) {
  mine_ = mine;
  total_ = total;
  micro_step_ = -1;
  schedule_ = schedule(mine, total, comm_.rank(), tree_);
  reserve();
  if (!tree_) clear(0);
  for (Exchange& exchange : exchanges_) exchange.state = Exchange::idle;
  next_ = exchanges_.size();
  my_cut_ = {mine.first, mine.count, total};
  // Nobody waits for the others' cuts before the first unit is exchanged.
  std::vector<std::span<const std::byte>> send(cuts_.size(), std::as_bytes(std::span(&my_cut_, 1)));
  std::vector<std::span<std::byte>> receive;
  for (Cut& cut : cuts_) receive.push_back(std::as_writable_bytes(std::span(&cut, 1)));
  cuts_pending_ = comm_.exchange(std::move(send), std::move(receive), {"exchange of micro-batch ranges", kCutsChannel});
}

void GradientSum::reserve() {
  auto slots = static_cast<std::size_t>(std::max(1, schedule_.slots));
  if (slots <= slots_.size()) return;
  slots_.clear();
  gradients_ = Arena(slots * static_cast<std::size_t>(store_.floats()) * sizeof(float));
  for (std::size_t s = 0; s < slots; ++s) {
    slots_.emplace_back();
    for (const Unit& unit : store_.units()) slots_[s].push_back(gradients_.take<float>(unit.size).data());
  }
}

void GradientSum::begin_micro_step(std::int64_t index) {
  ++micro_step_;
  DML_CHECK(micro_step_ < mine_.count && index == mine_.first + micro_step_, "micro-batch {} is out of turn", index);
  auto slot = static_cast<std::size_t>(schedule_.slot[static_cast<std::size_t>(micro_step_)]);
  if (tree_) clear(slot);
  for (std::size_t u = 0; u < exchanges_.size(); ++u)
    if (Unit& unit = store_.units()[u]; unit.size > 0) unit.grad = slots_[slot][u];
  ready_.assign(ready_.size(), false);
}

void GradientSum::clear(std::size_t slot) {
  ProfileScope profiled("zero_gradients");
  for (std::size_t u = 0; u < exchanges_.size(); ++u)
    parallel_ranges(store_.units()[u].size, kGrain, [&](std::int64_t first, std::int64_t last) {
      std::memset(slots_[slot][u] + first, 0, static_cast<std::size_t>(last - first) * sizeof(float));
    });
}

void GradientSum::unit_ready(std::size_t unit) {
  ProfileScope profiled("gradient_sum");
  DML_CHECK(micro_step_ >= 0 && !ready_[unit], "a unit's gradient became final twice");
  ready_[unit] = true;
  auto step = static_cast<std::size_t>(micro_step_);
  int top = schedule_.slot[step];
  for (int n = schedule_.additions[step]; n > 0; --n, --top) {
    float *to = slots_[static_cast<std::size_t>(top - 1)][unit], *from = slots_[static_cast<std::size_t>(top)][unit];
    parallel_ranges(store_.units()[unit].size, kGrain,
                    [&](std::int64_t first, std::int64_t last) { add_floats(to + first, from + first, last - first); });
  }
  if (micro_step_ + 1 == mine_.count) start_ready();
  poll();
}

void GradientSum::learn_cuts() {
  if (!cuts_pending_) return;
  cuts_pending_->wait();
  cuts_pending_.reset();
  auto same = [](const Cut& a, const Cut& b) { return a.first == b.first && a.count == b.count && a.total == b.total; };
  if (std::equal(cuts_.begin(), cuts_.end(), known_cuts_.begin(), known_cuts_.end(), same)) return;
  nodes_.clear();
  std::vector<TreeNode> all;
  std::int64_t next = 0;
  rounds_ = 0;
  for (std::size_t r = 0; r < cuts_.size(); ++r) {
    const Cut& cut = cuts_[r];
    if (cut.total != total_ || cut.first != next || cut.count < 0 || cut.first + cut.count > total_)
      throw Error(
          ExitCode::distributed,
          fmt::format("rank {} computes micro-batches {} to {} of {}, where rank {} expects it to begin with {} of {}",
                      r, cut.first, cut.first + cut.count, cut.total, comm_.rank(), next, total_));
    next += cut.count;
    nodes_.push_back(schedule({cut.first, cut.count}, total_, static_cast<int>(r), tree_).nodes);
    all.insert(all.end(), nodes_.back().begin(), nodes_.back().end());
    rounds_ = std::max(rounds_, nodes_.back().size());
  }
  DML_CHECK(next == total_ && rounds_ < static_cast<std::size_t>(kChannelsPerUnit), "micro-batches up to {} of {}",
            next, total_);
  additions_ = additions_to_root(all, tree_ ? total_ : comm_.size());
  known_cuts_ = cuts_;

  auto others = static_cast<std::int64_t>(all.size() - nodes_[static_cast<std::size_t>(comm_.rank())].size());
  std::vector<std::int64_t> need;
  for (std::size_t u = 0; u < exchanges_.size(); ++u) need.push_back(others * own(u).size());
  std::int64_t room = room_needed(need);
  if (room > ring_size_) {
    received_ = Arena(static_cast<std::size_t>(room) * sizeof(float));
    ring_ = received_.take<float>(room).data();
    ring_size_ = room;
  }
}

// All units' slices when that is little, else enough to keep the network busy: the largest unit, or a quarter of all.
std::int64_t GradientSum::room_needed(std::span<const std::int64_t> need) {
  std::int64_t all = std::accumulate(need.begin(), need.end(), std::int64_t{0}), largest = 0;
  for (std::int64_t n : need) largest = std::max(largest, n);
  return all <= kSmall ? all : std::max(largest, all / 4 / 16 * 16);
}

void GradientSum::start_ready() {
  while (next_ > 0 && (ready_[next_ - 1] || store_.units()[next_ - 1].size == 0)) start(--next_);
}

float* GradientSum::make_room(std::size_t unit) {
  auto others =
      static_cast<std::int64_t>(additions_.size() + 1 - nodes_[static_cast<std::size_t>(comm_.rank())].size());
  std::int64_t need = others * own(unit).size();
  if (need == 0) return nullptr;
  while (true) {
    while (!rooms_.empty() && exchanges_[rooms_.front().unit].state != Exchange::collecting) rooms_.pop_front();
    if (rooms_.empty()) ring_head_ = 0;
    std::int64_t oldest = rooms_.empty() ? ring_size_ : rooms_.front().first;
    // Not wrapped round: what is taken lies in [oldest, head), and the room behind it or before it is free.
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

void GradientSum::start(std::size_t unit) {
  Exchange& exchange = exchanges_[unit];
  if (store_.units()[unit].size == 0 || comm_.size() == 1) {
    exchange.state = Exchange::done;
    return;
  }
  learn_cuts();
  float* room = make_room(unit);
  auto ranks = static_cast<std::size_t>(comm_.size()), me = static_cast<std::size_t>(comm_.rank());
  std::int64_t size = own(unit).size();
  exchange.nodes.clear();
  exchange.parts.clear();
  for (std::size_t r = 0; r < ranks; ++r)
    for (std::size_t n = 0; n < nodes_[r].size(); ++n) {
      exchange.parts.push_back(r == me ? slots_[n][unit] + own(unit).first : room);
      if (r != me) room += size;
    }
  for (std::size_t n = 0; n < rounds_; ++n) {
    std::vector<std::span<const std::byte>> send(ranks);
    std::vector<std::span<std::byte>> receive(ranks);
    std::size_t part = 0;  // rank r's first
    for (std::size_t r = 0; r < ranks; part += nodes_[r++].size()) {
      if (r == me) continue;
      Slice theirs = slice_of(store_.units()[unit].size, static_cast<int>(r), comm_.size());
      if (n < nodes_[me].size()) send[r] = as_bytes(slots_[n][unit] + theirs.first, theirs.size());
      if (n < nodes_[r].size()) receive[r] = as_bytes(exchange.parts[part + n], size);
    }
    exchange.nodes.push_back(
        comm_.exchange(std::move(send), std::move(receive), {"exchange of gradients", unit_channel(unit, n + 1)}));
  }
  exchange.state = Exchange::collecting;
}

void GradientSum::add_up_and_spread(std::size_t unit) {
  Exchange& exchange = exchanges_[unit];
  exchange.nodes.clear();
  add_parts(exchange.parts, additions_, own(unit).size(), slots_[0][unit] + own(unit).first);
  exchange.state = Exchange::done;
  if (sums_ == Sums::at_owner) return;
  exchange.sums = gather_slices(comm_, store_.units()[unit].size, slots_[0][unit] + own(unit).first, slots_[0][unit],
                                {"spreading of gradient sums", unit_channel(unit, 0)});
  exchange.state = Exchange::spreading;
}

bool GradientSum::advance(std::size_t unit, bool block) {
  Exchange& exchange = exchanges_[unit];
  if (exchange.state == Exchange::collecting) {
    for (auto& pending : exchange.nodes) {
      if (block)
        pending->wait();
      else if (!pending->test())
        return false;
    }
    add_up_and_spread(unit);
  } else if (exchange.state == Exchange::spreading) {
    if (block)
      exchange.sums->wait();
    else if (!exchange.sums->test())
      return false;
    exchange.sums.reset();
    exchange.state = Exchange::done;
  }
  return exchange.state == Exchange::done;
}

void GradientSum::poll() {
  for (std::size_t u = exchanges_.size(); u-- > next_;) advance(u, false);
}

void GradientSum::finish() {
  ProfileScope profiled("gradient_wait");
  DML_CHECK(micro_step_ + 1 == mine_.count, "{} of {} micro-batches were computed", micro_step_ + 1, mine_.count);
  ready_.assign(ready_.size(), true);
  start_ready();
  learn_cuts();
  for (std::size_t u = exchanges_.size(); u-- > 0;) {
    while (exchanges_[u].state == Exchange::collecting) advance(u, true);
    poll();
  }
  for (std::size_t u = exchanges_.size(); u-- > 0;)
    while (!advance(u, true)) {
    }
  rooms_.clear();
}

void GradientSum::end_step() {
  for (Unit& unit : store_.units()) unit.grad = nullptr;
}

DistributionStrategy::Memory GradientSum::memory(const ParameterStore& store, int ranks, std::int64_t each, bool tree) {
  DistributionStrategy::Memory memory;
  std::int64_t nodes = 0, room = 0;
  std::vector<TreeSchedule> schedules;
  int slots = 1;
  for (int r = 0; r < ranks; ++r) {
    schedules.push_back(schedule({r * each, each}, ranks * each, r, tree));
    slots = std::max(slots, schedules.back().slots);
    nodes += static_cast<std::int64_t>(schedules.back().nodes.size());
  }
  for (int r = 0; r < ranks; ++r) {
    std::int64_t others = nodes - static_cast<std::int64_t>(schedules[static_cast<std::size_t>(r)].nodes.size());
    std::vector<std::int64_t> need;
    for (const Unit& unit : store.units()) need.push_back(others * slice_of(unit.size, r, ranks).size());
    room = std::max(room, room_needed(need));
  }
  memory.gradients = slots * store.floats() * static_cast<std::int64_t>(sizeof(float));
  memory.communication = room * static_cast<std::int64_t>(sizeof(float));
  return memory;
}

}  // namespace dml
