#include "dist/sharded.h"

#include <cstring>

#include "core/parallel.h"
#include "dist/float_work.h"

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

void Sharded::announce(ParameterStore& store) const {
  store.values_in_parts = values_ == Values::sharded;
  store.gradients_in_parts = true;
}

void Sharded::adopt(ParameterStore& store, const StateLayout& state) {
  store_ = &store;
  parts_ = unit_parts(store);
  DML_CHECK(!store.units().empty() && parts_.size() <= kMostStretches);
  for (std::size_t s = 0; s < parts_.size(); ++s)
    if (parts_[s].part == 0) first_of_.push_back(s);
  first_of_.push_back(parts_.size());
  auto slices = [this](const Stretch& part) { return slice(part); };
  Arena counting = Arena::measuring();
  cut_shards(store, parts_, slices, state, counting);
  state_ = Arena(counting.used());
  shards_ = cut_shards(store, parts_, slices, state, state_);
  whole_ = WholeParameters(store, parts_, state, group_.size(), group_.rank());
  whole_.allocate();
  for (Unit& unit : store.units())
    if (unit.size > 0 && unit.value) comm_.broadcast(as_bytes(unit.value, unit.size), 0);

  std::vector<std::int64_t> owned_of;
  for (std::size_t s = 0; s < parts_.size(); ++s) owned_of.push_back(own(s).size());
  if (across_.size() > 1)
    between_groups_ = std::make_unique<Reduction>(across_, owned_of, Reduction::Sums::everywhere, wire_);
  residuals_ = Residuals(store, wire_, comm_.size());
  if (values_ == Values::sharded) {
    own_ = Arena(bytes(sum(owned_of)));
    for (std::size_t s = 0; s < parts_.size(); ++s) {
      own_values_.push_back(own_.take<float>(own(s).size()).data());
      take_values(s);
    }
    store.release();
    value_places_ = UnitPlaces(store, group_.size(), false);
    gathered_ = Arena(bytes(value_places_.floats()));
    gathered_at_ = gathered_.take<float>(value_places_.floats()).data();
    gathered_parts_.resize(parts_.size());
  } else {
    for (std::size_t s = 0; s < parts_.size(); ++s)
      own_values_.push_back(store.units()[parts_[s].unit].value + parts_[s].first + own(s).first);
  }
  for (Shard& shard : shards_)
    shard.value = {own_values_[shard.stretch] + in_own(shard), static_cast<std::size_t>(shard.size)};

  gradient_places_ = UnitPlaces(store, group_.size(), true);
  gradients_ = Arena(bytes(gradient_places_.floats()));
  gradients_at_ = gradients_.take<float>(gradient_places_.floats()).data();
  launched_.resize(parts_.size());
}

// Where a shard begins in this rank's slice.
std::int64_t Sharded::in_own(const Shard& shard) const {
  return shard.parameter->offset + shard.first - parts_[shard.stretch].first - own(shard.stretch).first;
}

// From the store, or where it holds none, from where its parameters start.
void Sharded::take_values(std::size_t s) {
  const Unit& unit = store_->units()[parts_[s].unit];
  Slice mine = own(s);
  mine.first += parts_[s].first, mine.last += parts_[s].first;
  if (unit.value) {
    copy_bytes(own_values_[s], unit.value + mine.first, bytes(mine.size()));
    return;
  }
  for (const Parameter& p : unit.parameters)
    if (std::int64_t first = std::max(mine.first, p.offset), last = std::min(mine.last, p.offset + p.size());
        first < last)
      store_->start(p, first - p.offset, last - p.offset, own_values_[s] + (first - mine.first));
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
  launched_.assign(parts_.size(), -1);
  std::size_t places = 1;
  for (const Round& round : rounds_) places = std::max(places, round.kept.size());
  if (places <= nodes_.size()) return;
  std::int64_t owned = 0;
  for (std::size_t s = 0; s < parts_.size(); ++s) owned += own(s).size();
  nodes_.clear();
  sums_ = Arena(bytes(owned) * places);
  for (std::size_t place = 0; place < places; ++place) {
    nodes_.emplace_back();
    for (std::size_t s = 0; s < parts_.size(); ++s) nodes_[place].push_back(sums_.take<float>(own(s).size()).data());
  }
}

void Sharded::begin_micro_step(std::int64_t index) {
  ++round_;
  DML_CHECK(round_ < mine_.count && index == mine_.first + round_ * mine_.stride, "micro-batch {} is out of turn",
            index);
}

void Sharded::bind_gradient(std::size_t s) {
  if (parts_[s].size == 0 || part(s).grad != nullptr) return;
  land_while([&](const Flight& flight) { return gradient_places_.exchanges_collide(flight.stretch, s); });
  part(s).grad = full_gradient(s);
  zero_floats(part(s).grad, parts_[s].size);
}

void Sharded::launch(std::size_t s) {
  const std::int64_t size = parts_[s].size;
  if (size == 0) return;
  DML_CHECK(launched_[s] == round_ - 1, "a gradient became final twice, or never, in a micro-step");
  launched_[s] = round_;
  std::int64_t largest = 0;
  for (int r = 0; r < group_.size(); ++r) largest = std::max(largest, slice_of(size, r, group_.size()).size());
  for (std::int64_t first = 0; first < largest; first += gradient_places_[s].piece) {
    land_while([&](const Flight& flight) { return gradient_places_.exchanges_collide(flight.stretch, s); });
    launch_piece(s, first);
    flights_.back().ends = first + gradient_places_[s].piece >= largest;
  }
  part(s).grad = nullptr;
}

void Sharded::launch_piece(std::size_t s, std::int64_t first) {
  const UnitPlaces::Place& place = gradient_places_[s];
  const auto ranks = static_cast<std::size_t>(group_.size()), me = static_cast<std::size_t>(group_.rank());
  const std::size_t leaves = rounds_[static_cast<std::size_t>(launched_[s])].leaves;
  auto cut = [&](std::int64_t at, Slice slice) { return std::min(at, slice.size()); };
  const Slice mine = own(s);
  Flight flight;
  flight.stretch = s;
  flight.first = cut(first, mine), flight.last = cut(first + place.piece, mine);
  std::vector<std::span<const std::byte>> send(ranks);
  std::vector<std::span<std::byte>> receive(ranks);
  float* room = gradients_at_ + place.room;
  for (std::size_t r = 0; r < ranks; ++r) {
    if (r == me) continue;
    const Slice theirs = slice_of(parts_[s].size, static_cast<int>(r), group_.size());
    const std::int64_t from = theirs.first + cut(first, theirs),
                       size = theirs.first + cut(first + place.piece, theirs) - from;
    if (me < leaves) {
      wire_.pack(full_gradient(s) + from, size, residual_of(s) ? residual_of(s) + from : nullptr);
      send[r] = wire_.bytes(full_gradient(s) + from, size);
    }
    if (r >= leaves) continue;
    receive[r] = wire_.bytes(room, flight.last - flight.first);
    room += flight.last - flight.first;
  }
  flight.pending =
      group_.exchange(std::move(send), std::move(receive), {"exchange of gradients", unit_channel(s, kGradients)});
  flights_.push_back(std::move(flight));
}

void Sharded::land() {
  flights_.front().pending->wait();
  const Flight flight = std::move(flights_.front());
  flights_.pop_front();
  const std::size_t s = flight.stretch;
  const std::int64_t size = flight.last - flight.first;
  const Round& round = rounds_[static_cast<std::size_t>(launched_[s])];
  std::vector<float*> parts;
  for (std::size_t place = 0; place < round.held; ++place) parts.push_back(nodes_[place][s] + flight.first);
  float* room = gradients_at_ + gradient_places_[s].room;
  for (std::size_t r = 0; r < round.leaves; ++r) {
    bool mine = r == static_cast<std::size_t>(group_.rank());
    parts.push_back(mine ? full_gradient(s) + own(s).first + flight.first : room);
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
      if (float* from = parts[round.kept[i]], *to = nodes_[i][s] + flight.first; from != to)
        std::memcpy(to + first, from + first, bytes(last - first));
  });
  count_work(FloatWork::add, size * std::ssize(round.additions));
  for (std::size_t i = 0; i < round.kept.size(); ++i)
    if (parts[round.kept[i]] != nodes_[i][s] + flight.first) count_work(FloatWork::copy, size);
  if (flight.ends && launched_[s] + 1 == static_cast<std::int64_t>(rounds_.size())) sum_across(s);
}

void Sharded::sum_across(std::size_t s) {
  if (!between_groups_ || own(s).size() == 0) return;
  std::vector<float*> nodes;
  for (std::size_t n = 0; !rounds_.empty() && n < rounds_.back().kept.size(); ++n) nodes.push_back(nodes_[n][s]);
  bf16* residual = residual_of(s);
  between_groups_->ready(s, nodes, nodes_[0][s], residual ? residual + own(s).first : nullptr);
}

void Sharded::before_backward(int unit) {
  auto u = static_cast<std::size_t>(unit);
  visit(u, -1);
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
  while (!flights_.empty() && flights_.front().pending->test()) land();
  if (between_groups_ && in_step()) between_groups_->poll();
}

std::span<Shard> Sharded::finish_gradients() {
  DML_CHECK(round_ + 1 == mine_.count, "{} of {} micro-batches were computed", round_ + 1, mine_.count);
  if (mine_.count < static_cast<std::int64_t>(rounds_.size())) {  // others make their last micro-step
    DML_CHECK(empty_pass_, "no pass to make without a micro-batch");
    ++round_;
    empty_pass_();
  }
  while (!flights_.empty()) land();
  for (std::size_t s = 0; s < parts_.size(); ++s)
    DML_CHECK(parts_[s].size == 0 || launched_[s] + 1 == static_cast<std::int64_t>(rounds_.size()),
              "a gradient of {} never became final", store_->units()[parts_[s].unit].name);
  if (between_groups_) {
    if (rounds_.empty())
      for (std::size_t s = parts_.size(); s-- > 0;) sum_across(s);
    between_groups_->finish();
  }
  for (Shard& shard : shards_)
    shard.grad = {nodes_[0][shard.stretch] + in_own(shard), static_cast<std::size_t>(shard.size)};
  return shards_;
}

double Sharded::squared_gradient_norm() {
  return squared_norm(group_, parts_, [this](std::size_t s) { return nodes_[0][s]; });
}

void Sharded::end_step() {
  for (std::size_t s = 0; s < parts_.size(); ++s) part(s).grad = nullptr;
  for (Shard& shard : shards_) shard.grad = {};
  total_ = 0;
}

// ---- values

void Sharded::start_gathering(std::size_t s) {
  if (parts_[s].size == 0 || gathered_parts_[s].held) return;
  for (std::size_t other = 0; other < parts_.size(); ++other)
    if (value_places_.overlap(other, s)) forget(other);
  gathered_parts_[s].held = true;
  gathered_parts_[s].pending =
      gather_slices(group_, parts_[s].size, own_values_[s], gathered_at_ + value_places_[s].first,
                    {"gathering of values", unit_channel(s, kValues)});
}

void Sharded::hold_values(std::size_t s) {
  if (parts_[s].size == 0) return;
  start_gathering(s);
  if (gathered_parts_[s].pending) gathered_parts_[s].pending->wait();
  gathered_parts_[s].pending.reset();
  part(s).value = gathered_at_ + value_places_[s].first;
}

// A unit begins: what is small of it, its first large part in this direction, what is small of the next.
void Sharded::visit(std::size_t u, int direction) {
  if (frozen_) frozen_->need(u, direction);
  direction_ = direction;
  if (!gathers()) return;
  hold_values(first_of_[u]);
  if (std::size_t parts = first_of_[u + 1] - first_of_[u]; parts > 1 && !(u == 0 && direction < 0))
    start_gathering(direction > 0 ? first_of_[u] + 1 : first_of_[u + 1] - 1);
  const std::size_t next = u + static_cast<std::size_t>(direction);  // wraps round below 0: no such unit
  if (next >= units() || value_places_.overlap(first_of_[next], first_of_[u])) return;
  if (direction < 0 && next == 0 && store_->ends_take_turns) return;  // its values are for forward only
  start_gathering(first_of_[next]);
}

// The large part after this one in a walk, or parts_.size() where nobody will ask for it: the walk ends with a unit that is only
// being recomputed, and before the embedding, whose values are for forward only.
std::size_t Sharded::next_part(std::size_t s, int direction) const {
  const std::size_t u = parts_[s].unit;
  std::size_t next = s + static_cast<std::size_t>(direction);
  if (next == first_of_[u] || next == first_of_[u + 1]) {
    if (direction != direction_ || (direction < 0 && u <= 1)) return parts_.size();
    next = direction > 0 ? first_of_[u + 1] + 1 : first_of_[u] - 1;
  }
  return next < parts_.size() && parts_[next].part > 0 ? next : parts_.size();
}

void Sharded::before_values(std::size_t u, std::size_t part, int direction) {
  if (!gathers()) return;
  const std::size_t s = first_of_[u] + part;
  hold_values(s);
  poll();
  std::vector<std::size_t> kept{s};  // this one and those ahead that are on their way
  auto in_the_way = [&](std::size_t next) {
    return std::ranges::any_of(kept, [&](std::size_t other) { return value_places_.overlap(other, next); });
  };
  for (std::size_t next = next_part(s, direction); next < parts_.size() && !in_the_way(next);
       next = next_part(next, direction)) {
    start_gathering(next);
    kept.push_back(next);
  }
}

void Sharded::forget(std::size_t s) {
  Gathered& gathered = gathered_parts_[s];
  if (!gathered.held) return;
  if (gathered.pending) gathered.pending->wait();
  gathered = {};
  part(s).value = nullptr;
}

void Sharded::forget_values() {
  for (std::size_t s = 0; s < gathered_parts_.size(); ++s) forget(s);
}

void Sharded::publish() {
  if (values_ == Values::sharded) return forget_values();
  std::vector<std::unique_ptr<Pending>> pending;
  for (std::size_t s = 0; s < parts_.size(); ++s)
    if (parts_[s].size > 0)
      pending.push_back(gather_slices(group_, parts_[s].size, own_values_[s],
                                      store_->units()[parts_[s].unit].value + parts_[s].first,
                                      {"gathering of updated values"}));
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
        show(unit);
      });
      wanted = -1;
      tell();
    } else {
      for (tell(); wanted >= 0; tell()) show(static_cast<std::size_t>(wanted));
    }
  }
  release_values();
}

// Gathers a unit, and hides the one before.
void Sharded::show(std::size_t u) {
  release_values();
  shown_ = Arena(bytes(store_->units()[u].size));
  gather_whole(u);
}

void Sharded::gather_whole(std::size_t u) {
  Unit& unit = store_->units()[u];
  unit.value = shown_.take<float>(unit.size).data();
  for (std::size_t s = first_of_[u]; s < first_of_[u + 1]; ++s)
    gather_slices(group_, parts_[s].size, own_values_[s], unit.value + parts_[s].first, {"gathering of all values"})
        ->wait();
}

void Sharded::gather_values() {
  if (frozen_) frozen_->let_go();
  if (values_ == Values::whole) return;
  forget_values();
  shown_ = Arena(bytes(store_->floats()));
  for (std::size_t u = 0; u < units(); ++u) gather_whole(u);
}

void Sharded::release_values() {
  if (values_ == Values::whole) return;
  for (Unit& unit : store_->units()) unit.value = nullptr;
  shown_ = Arena();
}

DistributionStrategy::Memory Sharded::memory(const ParameterStore& store, const StateLayout& state,
                                             std::int64_t each) const {
  Memory memory;
  const std::vector<Stretch> parts = unit_parts(store);
  Arena counting = Arena::measuring();
  cut_shards(
      store, parts, [this](const Stretch& part) { return slice(part); }, state, counting);
  const WholeParameters whole(store, parts, state, group_.size(), group_.rank());
  memory.state = static_cast<std::int64_t>(counting.used()) + whole.state_bytes();
  std::size_t places = 1;
  const std::int64_t total = each * comm_.size();
  for (const Round& round : plan_rounds(stretch(total), total, group_.size()))
    places = std::max(places, round.kept.size());
  std::vector<std::int64_t> owned_of;
  for (const Stretch& part : parts) owned_of.push_back(slice(part).size());
  const std::int64_t owned = sum(owned_of);
  const UnitPlaces gradients(store, group_.size(), true), gathered(store, group_.size(), false);
  std::int64_t received = gradients.floats() - gradients.whole_parts();
  memory.gradients = static_cast<std::int64_t>(bytes(owned) * places + bytes(gradients.whole_parts()));
  if (across_.size() > 1) {
    std::vector<MicroBatches> shares;
    for (int g = 0; g < across_.size(); ++g) shares.push_back(contiguous_share(total, g, across_.size()));
    received += Reduction::room(owned_of, shares, total, true);
  }
  memory.communication =
      whole.room_bytes() + static_cast<std::int64_t>(bytes(received)) + Residuals::bytes(store, wire_, comm_.size());
  memory.values =
      static_cast<std::int64_t>(bytes(values_ == Values::whole ? store.floats() : owned + gathered.floats()));
  return memory;
}

}  // namespace dml
