#include "dist/sharded.h"

#include <cstring>

#include "core/parallel.h"

namespace dml {
namespace {

constexpr std::int64_t kBlock = 4096;
constexpr std::size_t kGradients = 1, kValues = 2;  // places for unit_channel()

std::size_t bytes(std::int64_t floats) { return static_cast<std::size_t>(floats) * sizeof(float); }

std::int64_t sum(const std::vector<std::int64_t>& sizes) {
  std::int64_t total = 0;
  for (std::int64_t size : sizes) total += size;
  return total;
}

}  // namespace

Sharded::Sharded(Comm& comm, const GroupPlace& place, Values values, const DistributionOptions& options)
    : comm_(comm), group_(comm, place.inside), across_(comm, place.across), values_(values), wire_(options.wire) {}

MicroBatches Sharded::share(std::int64_t total) const {
  MicroBatches ours = stretch(total), mine = interleaved_share(ours.count, group_.rank(), group_.size());
  mine.first += ours.first;
  return mine;
}

std::vector<Sharded::Round> Sharded::plan_rounds(MicroBatches stretch, std::int64_t total, int ranks) {
  std::vector<Round> rounds;
  TreeStack stack(total);
  const std::int64_t end = stretch.first + stretch.count;
  for (std::int64_t first = stretch.first; first < end; first += ranks) {
    Round round;
    round.held = stack.depth();
    round.leaves = static_cast<std::size_t>(std::min<std::int64_t>(ranks, end - first));
    for (std::size_t part = 0; part < round.held + round.leaves; ++part) {
      round.kept.push_back(part);
      if (part < round.held) continue;
      for (int n = stack.push({0, first + static_cast<std::int64_t>(part - round.held)}); n > 0; --n) {
        auto from = static_cast<int>(round.kept.back());
        round.kept.pop_back();
        round.additions.emplace_back(static_cast<int>(round.kept.back()), from);
      }
    }
    rounds.push_back(std::move(round));
  }
  return rounds;
}

void Sharded::adopt(ParameterStore& store, const StateLayout& state) {
  store_ = &store;
  DML_CHECK(!store.units().empty() && units() <= kMostUnits);
  auto slices = [this](const Unit& unit) { return slice(unit); };
  Arena counting = Arena::measuring();
  cut_shards(store, slices, state, counting);
  state_ = Arena(counting.used());
  shards_ = cut_shards(store, slices, state, state_);
  for (Unit& unit : store.units())
    if (unit.size > 0 && unit.value) comm_.broadcast(as_bytes(unit.value, unit.size), 0);

  std::vector<std::int64_t> owned_of;
  for (std::size_t u = 0; u < units(); ++u) owned_of.push_back(own(u).size());
  if (across_.size() > 1)
    between_groups_ = std::make_unique<Reduction>(across_, owned_of, Reduction::Sums::everywhere, wire_);
  residuals_ = Residuals(store, wire_, comm_.size());
  if (values_ == Values::sharded) {
    own_ = Arena(bytes(sum(owned_of)));
    for (std::size_t u = 0; u < units(); ++u) {
      own_values_.push_back(own_.take<float>(own(u).size()).data());
      take_values(u);
    }
    store.release();
    value_places_ = UnitPlaces(store, group_.size(), false);
    gathered_ = Arena(bytes(value_places_.floats()));
    gathered_at_ = gathered_.take<float>(value_places_.floats()).data();
    gathered_units_.resize(units());
  } else {
    for (std::size_t u = 0; u < units(); ++u) own_values_.push_back(store.units()[u].value + own(u).first);
  }
  for (Shard& shard : shards_)
    shard.value = {own_values_[shard.unit] + shard.parameter->offset + shard.first - own(shard.unit).first,
                   static_cast<std::size_t>(shard.size)};

  gradient_places_ = UnitPlaces(store, group_.size(), true);
  gradients_ = Arena(bytes(gradient_places_.floats()));
  gradients_at_ = gradients_.take<float>(gradient_places_.floats()).data();
  launched_.resize(units());
}

// From the store, or where it holds none, from where its parameters start.
void Sharded::take_values(std::size_t u) {
  const Unit& unit = store_->units()[u];
  const Slice mine = own(u);
  if (unit.value) {
    std::memcpy(own_values_[u], unit.value + mine.first, bytes(mine.size()));
    return;
  }
  for (const Parameter& p : unit.parameters)
    if (std::int64_t first = std::max(mine.first, p.offset), last = std::min(mine.last, p.offset + p.size());
        first < last)
      store_->start(p, first - p.offset, last - p.offset, own_values_[u] + (first - mine.first));
}

// ---- gradients

void Sharded::begin_step(MicroBatches mine, std::int64_t total) {
  MicroBatches expected = share(total);
  DML_CHECK(mine.first == expected.first && mine.count == expected.count && mine.stride == expected.stride,
            "sharded gradients need the micro-batches of share()");
  mine_ = mine;
  total_ = total;
  round_ = -1;
  rounds_ = plan_rounds(stretch(total), total, group_.size());
  if (between_groups_) between_groups_->begin(stretch(total), total, true);
  launched_.assign(units(), -1);
  std::size_t places = 1;
  for (const Round& round : rounds_) places = std::max(places, round.kept.size());
  if (places <= nodes_.size()) return;
  std::int64_t owned = 0;
  for (std::size_t u = 0; u < units(); ++u) owned += own(u).size();
  nodes_.clear();
  sums_ = Arena(bytes(owned) * places);
  for (std::size_t place = 0; place < places; ++place) {
    nodes_.emplace_back();
    for (std::size_t u = 0; u < units(); ++u) nodes_[place].push_back(sums_.take<float>(own(u).size()).data());
  }
}

void Sharded::begin_micro_step(std::int64_t index) {
  ++round_;
  DML_CHECK(round_ < mine_.count && index == mine_.first + round_ * mine_.stride, "micro-batch {} is out of turn",
            index);
}

void Sharded::bind_gradient(std::size_t u) {
  Unit& unit = store_->units()[u];
  if (unit.size == 0 || unit.grad != nullptr) return;
  if (flight_.pending && gradient_places_.overlap(flight_.unit, u)) land();
  float* full = full_gradient(u);
  parallel_ranges(unit.size, kBlock * 4,
                  [&](std::int64_t first, std::int64_t last) { std::memset(full + first, 0, bytes(last - first)); });
  unit.grad = full;
}

void Sharded::launch(std::size_t u, std::int64_t round) {
  Unit& unit = store_->units()[u];
  if (unit.size == 0) return;
  DML_CHECK(launched_[u] == round - 1, "a unit's gradient became final twice, or never, in a micro-step");
  launched_[u] = round;
  std::int64_t largest = 0;
  for (int r = 0; r < group_.size(); ++r) largest = std::max(largest, slice_of(unit.size, r, group_.size()).size());
  for (std::int64_t first = 0; first < largest; first += gradient_places_[u].piece) {
    if (flight_.pending) land();
    launch_piece(u, first);
    flight_.ends_unit = first + gradient_places_[u].piece >= largest;
  }
  unit.grad = nullptr;
}

void Sharded::launch_piece(std::size_t u, std::int64_t first) {
  const UnitPlaces::Place& place = gradient_places_[u];
  const auto ranks = static_cast<std::size_t>(group_.size()), me = static_cast<std::size_t>(group_.rank());
  const std::size_t leaves = rounds_[static_cast<std::size_t>(launched_[u])].leaves;
  auto cut = [&](std::int64_t at, Slice slice) { return std::min(at, slice.size()); };
  const Slice mine = own(u);
  flight_.unit = u;
  flight_.first = cut(first, mine), flight_.last = cut(first + place.piece, mine);
  std::vector<std::span<const std::byte>> send(ranks);
  std::vector<std::span<std::byte>> receive(ranks);
  float* room = gradients_at_ + place.room;
  for (std::size_t r = 0; r < ranks; ++r) {
    if (r == me) continue;
    const Slice theirs = slice_of(store_->units()[u].size, static_cast<int>(r), group_.size());
    const std::int64_t from = theirs.first + cut(first, theirs),
                       size = theirs.first + cut(first + place.piece, theirs) - from;
    if (me < leaves) {
      wire_.pack(full_gradient(u) + from, size, residuals_.of(u) ? residuals_.of(u) + from : nullptr);
      send[r] = wire_.bytes(full_gradient(u) + from, size);
    }
    if (r >= leaves) continue;
    receive[r] = wire_.bytes(room, flight_.last - flight_.first);
    room += flight_.last - flight_.first;
  }
  flight_.pending =
      group_.exchange(std::move(send), std::move(receive), {"exchange of gradients", unit_channel(u, kGradients)});
}

void Sharded::land() {
  flight_.pending->wait();
  flight_.pending.reset();
  const std::size_t u = flight_.unit;
  const std::int64_t size = flight_.last - flight_.first;
  const Round& round = rounds_[static_cast<std::size_t>(launched_[u])];
  std::vector<float*> parts;
  for (std::size_t place = 0; place < round.held; ++place) parts.push_back(nodes_[place][u] + flight_.first);
  float* room = gradients_at_ + gradient_places_[u].room;
  for (std::size_t r = 0; r < round.leaves; ++r) {
    bool mine = r == static_cast<std::size_t>(group_.rank());
    parts.push_back(mine ? full_gradient(u) + own(u).first + flight_.first : room);
    if (mine) continue;
    wire_.unpack(room, size);
    room += size;
  }
  parallel_ranges(size, kBlock, [&](std::int64_t first, std::int64_t last) {
    for (auto [to, from] : round.additions)
      add_floats(parts[static_cast<std::size_t>(to)] + first, parts[static_cast<std::size_t>(from)] + first,
                 last - first);
    // kept[i] ≥ i and ascending: what is overwritten is not needed any more.
    for (std::size_t i = 0; i < round.kept.size(); ++i)
      if (float* from = parts[round.kept[i]], *to = nodes_[i][u] + flight_.first; from != to)
        std::memcpy(to + first, from + first, bytes(last - first));
  });
  if (flight_.ends_unit && launched_[u] + 1 == static_cast<std::int64_t>(rounds_.size())) sum_across(u);
}

void Sharded::sum_across(std::size_t u) {
  if (!between_groups_ || own(u).size() == 0) return;
  std::vector<float*> nodes;
  for (std::size_t n = 0; !rounds_.empty() && n < rounds_.back().kept.size(); ++n) nodes.push_back(nodes_[n][u]);
  bf16* residual = residuals_.of(u);
  between_groups_->ready(u, nodes, nodes_[0][u], residual ? residual + own(u).first : nullptr);
}

void Sharded::before_backward(int unit) {
  auto u = static_cast<std::size_t>(unit);
  need_values(u, -1);
  if (in_step()) bind_gradient(u);
  poll();
}

void Sharded::before_gradient(int unit) {
  if (in_step()) bind_gradient(static_cast<std::size_t>(unit));
}

void Sharded::after_backward(int unit) {
  launch(static_cast<std::size_t>(unit), round_);
  poll();
}

void Sharded::poll() {
  if (flight_.pending && flight_.pending->test()) land();
  if (between_groups_ && in_step()) between_groups_->poll();
}

// The others' last micro-step, seen from a rank that has none: same order of units as the model's.
void Sharded::join_last_round() {
  auto round = static_cast<std::int64_t>(rounds_.size()) - 1;
  for (std::size_t u = 0; u < units(); ++u) need_values(u, 1);
  for (std::size_t u = units(); u-- > 0;) {
    if (u > 0 && u + 1 < units()) need_values(u, -1);
    launch(u, round);
    poll();
  }
}

std::span<Shard> Sharded::finish_gradients() {
  DML_CHECK(round_ + 1 == mine_.count, "{} of {} micro-batches were computed", round_ + 1, mine_.count);
  if (mine_.count < static_cast<std::int64_t>(rounds_.size())) join_last_round();
  if (flight_.pending) land();
  for (std::size_t u = 0; u < units(); ++u)
    DML_CHECK(store_->units()[u].size == 0 || launched_[u] + 1 == static_cast<std::int64_t>(rounds_.size()),
              "the gradient of {} never became final", store_->units()[u].name);
  if (between_groups_) {
    if (rounds_.empty())
      for (std::size_t u = units(); u-- > 0;) sum_across(u);
    between_groups_->finish();
  }
  for (Shard& shard : shards_)
    shard.grad = {nodes_[0][shard.unit] + shard.parameter->offset + shard.first - own(shard.unit).first,
                  static_cast<std::size_t>(shard.size)};
  return shards_;
}

double Sharded::squared_gradient_norm() {
  return squared_norm(group_, *store_, [this](std::size_t unit) { return nodes_[0][unit]; });
}

void Sharded::end_step() {
  for (Unit& unit : store_->units()) unit.grad = nullptr;
  for (Shard& shard : shards_) shard.grad = {};
  total_ = 0;
}

// ---- values

void Sharded::start_gathering(std::size_t u) {
  if (gathered_units_[u].held) return;
  for (std::size_t other = 0; other < units(); ++other)
    if (value_places_.overlap(other, u)) forget(other);
  gathered_units_[u].held = true;
  gathered_units_[u].pending =
      gather_slices(group_, store_->units()[u].size, own_values_[u], gathered_at_ + value_places_[u].first,
                    {"gathering of values", unit_channel(u, kValues)});
}

void Sharded::hold_values(std::size_t u) {
  if (store_->units()[u].size == 0) return;
  start_gathering(u);
  if (gathered_units_[u].pending) gathered_units_[u].pending->wait();
  gathered_units_[u].pending.reset();
  store_->units()[u].value = gathered_at_ + value_places_[u].first;
}

void Sharded::need_values(std::size_t u, int direction) {
  if (frozen_) frozen_->need(u, direction);
  if (values_ == Values::whole || shown_.capacity() > 0) return;
  hold_values(u);
  const std::size_t next = u + static_cast<std::size_t>(direction);  // wraps round below 0: no such unit
  if (next >= units() || store_->units()[next].size == 0 || value_places_.overlap(next, u)) return;
  if (direction < 0 && next == 0 && store_->ends_take_turns) return;  // its values are for forward only
  start_gathering(next);
}

void Sharded::forget(std::size_t u) {
  Gathered& gathered = gathered_units_[u];
  if (!gathered.held) return;
  if (gathered.pending) gathered.pending->wait();
  gathered = {};
  store_->units()[u].value = nullptr;
}

void Sharded::forget_values() {
  for (std::size_t u = 0; u < gathered_units_.size(); ++u) forget(u);
}

void Sharded::publish() {
  if (values_ == Values::sharded) return forget_values();
  std::vector<std::unique_ptr<Pending>> pending;
  for (std::size_t u = 0; u < units(); ++u)
    if (Unit& unit = store_->units()[u]; unit.size > 0)
      pending.push_back(gather_slices(group_, unit.size, own_values_[u], unit.value, {"gathering of updated values"}));
  for (auto& p : pending) p->wait();
}

void Sharded::shard_frozen(const std::vector<std::vector<kernels::Weight*>>& units) {
  if (values_ == Values::sharded && group_.size() > 1) frozen_ = std::make_unique<FrozenShards>(group_, units);
}

// Rank 0 tells the others of its group which unit it wants; the other groups have nothing to give.
void Sharded::on_first_rank(const std::function<void(const Show& show)>& read) {
  if (values_ == Values::whole) {
    if (comm_.rank() == 0) read([](std::size_t) {});
    return;
  }
  forget_values();
  if (frozen_) frozen_->let_go();
  if (across_.rank() == 0) {
    std::int64_t wanted = -1;
    auto tell = [&] { group_.broadcast(std::as_writable_bytes(std::span(&wanted, 1)), 0); };
    if (group_.rank() == 0) {
      read([&](std::size_t unit) {
        wanted = static_cast<std::int64_t>(unit);
        tell();
        hold_values(unit);
      });
      wanted = -1;
      tell();
    } else {
      for (tell(); wanted >= 0; tell()) hold_values(static_cast<std::size_t>(wanted));
    }
  }
  forget_values();
}

void Sharded::gather_values() {
  if (frozen_) frozen_->let_go();
  if (values_ == Values::whole) return;
  forget_values();
  shown_ = Arena(bytes(store_->floats()));
  for (std::size_t u = 0; u < units(); ++u) {
    Unit& unit = store_->units()[u];
    unit.value = shown_.take<float>(unit.size).data();
    gather_slices(group_, unit.size, own_values_[u], unit.value, {"gathering of all values"})->wait();
  }
}

void Sharded::release_values() {
  if (values_ == Values::whole) return;
  for (Unit& unit : store_->units()) unit.value = nullptr;
  shown_ = Arena();
}

DistributionStrategy::Memory Sharded::memory(const ParameterStore& store, const StateLayout& state,
                                             std::int64_t each) const {
  Memory memory;
  auto slices = [this](const Unit& unit) { return slice(unit); };
  Arena counting = Arena::measuring();
  cut_shards(store, slices, state, counting);
  memory.state = static_cast<std::int64_t>(counting.used());
  std::size_t places = 1;
  const std::int64_t total = each * comm_.size();
  for (const Round& round : plan_rounds(stretch(total), total, group_.size()))
    places = std::max(places, round.kept.size());
  std::vector<std::int64_t> owned_of;
  for (const Unit& unit : store.units()) owned_of.push_back(slices(unit).size());
  const std::int64_t owned = sum(owned_of);
  const UnitPlaces gradients(store, group_.size(), true), gathered(store, group_.size(), false);
  std::int64_t received = gradients.floats() - gradients.whole_units();
  memory.gradients = static_cast<std::int64_t>(bytes(owned) * places + bytes(gradients.whole_units()));
  if (across_.size() > 1) {
    std::vector<MicroBatches> shares;
    for (int g = 0; g < across_.size(); ++g) shares.push_back(contiguous_share(total, g, across_.size()));
    received += Reduction::room(owned_of, shares, total, true);
  }
  memory.communication = static_cast<std::int64_t>(bytes(received)) + Residuals::bytes(store, wire_, comm_.size());
  memory.values =
      static_cast<std::int64_t>(bytes(values_ == Values::whole ? store.floats() : owned + gathered.floats()));
  return memory;
}

}  // namespace dml
