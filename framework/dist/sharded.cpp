#include "dist/sharded.h"

#include <cstring>

#include "core/parallel.h"

namespace dml {
namespace {

constexpr std::size_t kShared = 3;  // buffers the layers take in turn: one in use, two under way
constexpr std::int64_t kBlock = 4096;
constexpr std::size_t kGradients = 1, kValues = 2;  // places for unit_channel()

// Buffer 0 is the first unit's, 1 the last one's, the others are as large as the largest unit between.
template <class Size>
std::vector<std::int64_t> buffer_sizes(const std::vector<Unit>& units, Size size) {
  std::vector<std::int64_t> sizes{size(units.front()), units.size() > 1 ? size(units.back()) : 0};
  std::int64_t largest = 0;
  for (std::size_t u = 1; u + 1 < units.size(); ++u) largest = std::max(largest, size(units[u]));
  for (std::size_t k = 0; k < kShared && k + 2 < units.size(); ++k) sizes.push_back(largest);
  return sizes;
}

std::size_t bytes(std::int64_t floats) { return static_cast<std::size_t>(floats) * sizeof(float); }

std::int64_t sum(const std::vector<std::int64_t>& sizes) {
  std::int64_t total = 0;
  for (std::int64_t size : sizes) total += size;
  return total;
}

}  // namespace

std::vector<Sharded::Round> Sharded::plan_rounds(std::int64_t total, int ranks) {
  std::vector<Round> rounds;
  TreeStack stack(total);
  for (std::int64_t first = 0; first < total; first += ranks) {
    Round round;
    round.held = stack.depth();
    round.leaves = static_cast<std::size_t>(std::min<std::int64_t>(ranks, total - first));
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
  auto slices = [this](const Unit& unit) { return slice_of(unit.size, comm_.rank(), comm_.size()); };
  Arena counting = Arena::measuring();
  cut_shards(store, slices, state, counting);
  state_ = Arena(counting.used());
  shards_ = cut_shards(store, slices, state, state_);
  for (Unit& unit : store.units())
    if (unit.size > 0) comm_.broadcast(as_bytes(unit.value, unit.size), 0);

  std::int64_t owned = 0;
  for (std::size_t u = 0; u < units(); ++u) owned += own(u).size();
  if (values_ == Values::sharded) {
    own_ = Arena(bytes(owned));
    for (std::size_t u = 0; u < units(); ++u) {
      own_values_.push_back(own_.take<float>(own(u).size()).data());
      std::memcpy(own_values_[u], store.units()[u].value + own(u).first, bytes(own(u).size()));
    }
    store.release();
    auto sizes = buffer_sizes(store.units(), [](const Unit& unit) { return unit.size; });
    gathered_ = Arena(bytes(sum(sizes)));
    for (std::int64_t size : sizes) value_buffers_.emplace_back().data = gathered_.take<float>(size).data();
  } else {
    for (std::size_t u = 0; u < units(); ++u) own_values_.push_back(store.units()[u].value + own(u).first);
  }
  for (Shard& shard : shards_)
    shard.value = {own_values_[shard.unit] + shard.parameter->offset + shard.first - own(shard.unit).first,
                   static_cast<std::size_t>(shard.size)};

  auto full = buffer_sizes(store.units(), [](const Unit& unit) { return unit.size; });
  auto received =
      buffer_sizes(store.units(), [&](const Unit& unit) { return (comm_.size() - 1) * slices(unit).size(); });
  gradients_ = Arena(bytes(sum(full) + sum(received)));
  for (std::size_t k = 0; k < full.size(); ++k)
    gradient_buffers_.push_back({gradients_.take<float>(full[k]).data(), gradients_.take<float>(received[k]).data()});
  flights_.resize(units());
}

// ---- gradients

void Sharded::begin_step(MicroBatches mine, std::int64_t total) {
  MicroBatches expected = share(total);
  DML_CHECK(mine.first == expected.first && mine.count == expected.count && mine.stride == expected.stride,
            "sharded gradients need the micro-batches of share()");
  mine_ = mine;
  total_ = total;
  round_ = -1;
  rounds_ = plan_rounds(total, comm_.size());
  for (Flight& flight : flights_) flight.round = -1;
  std::size_t places = 0;
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
  bind_gradient(0);
  bind_gradient(units() - 1);
}

std::size_t Sharded::take_buffer(std::size_t unit) {
  if (flights_[unit].pending) land(unit);
  std::size_t k = unit == 0 ? 0 : unit + 1 == units() ? 1 : 2 + turn_++ % (gradient_buffers_.size() - 2);
  GradientBuffer& buffer = gradient_buffers_[k];
  if (buffer.unit >= 0) land(static_cast<std::size_t>(buffer.unit));
  buffer.unit = static_cast<std::ptrdiff_t>(unit);
  flights_[unit].buffer = k;
  return k;
}

void Sharded::bind_gradient(std::size_t u) {
  Unit& unit = store_->units()[u];
  if (unit.size == 0 || unit.grad != nullptr) return;
  float* full = gradient_buffers_[take_buffer(u)].full;
  parallel_ranges(unit.size, kBlock * 4,
                  [&](std::int64_t first, std::int64_t last) { std::memset(full + first, 0, bytes(last - first)); });
  unit.grad = full;
}

void Sharded::launch(std::size_t u, std::int64_t round) {
  Unit& unit = store_->units()[u];
  if (unit.size == 0) return;
  Flight& flight = flights_[u];
  DML_CHECK(flight.round == round - 1, "a unit's gradient became final twice, or never, in a micro-step");
  const GradientBuffer& buffer = gradient_buffers_[flight.buffer];
  auto ranks = static_cast<std::size_t>(comm_.size()), me = static_cast<std::size_t>(comm_.rank());
  std::size_t leaves = rounds_[static_cast<std::size_t>(round)].leaves;
  std::vector<std::span<const std::byte>> send(ranks);
  std::vector<std::span<std::byte>> receive(ranks);
  float* room = buffer.received;
  for (std::size_t r = 0; r < ranks; ++r) {
    if (r == me) continue;
    Slice theirs = slice_of(unit.size, static_cast<int>(r), comm_.size());
    if (me < leaves) send[r] = as_bytes(buffer.full + theirs.first, theirs.size());
    if (r >= leaves) continue;
    receive[r] = as_bytes(room, own(u).size());
    room += own(u).size();
  }
  flight.round = round;
  flight.pending =
      comm_.exchange(std::move(send), std::move(receive), {"exchange of gradients", unit_channel(u, kGradients)});
  unit.grad = nullptr;
}

void Sharded::land(std::size_t u) {
  Flight& flight = flights_[u];
  DML_CHECK(flight.pending != nullptr, "a gradient buffer is taken from a unit whose gradient is not final");
  flight.pending->wait();
  flight.pending.reset();
  GradientBuffer& buffer = gradient_buffers_[flight.buffer];
  buffer.unit = -1;
  const Round& round = rounds_[static_cast<std::size_t>(flight.round)];
  std::vector<float*> parts;
  for (std::size_t place = 0; place < round.held; ++place) parts.push_back(nodes_[place][u]);
  float* room = buffer.received;
  for (std::size_t r = 0; r < round.leaves; ++r) {
    bool mine = r == static_cast<std::size_t>(comm_.rank());
    parts.push_back(mine ? buffer.full + own(u).first : room);
    if (!mine) room += own(u).size();
  }
  parallel_ranges(own(u).size(), kBlock, [&](std::int64_t first, std::int64_t last) {
    for (auto [to, from] : round.additions)
      add_floats(parts[static_cast<std::size_t>(to)] + first, parts[static_cast<std::size_t>(from)] + first,
                 last - first);
    // kept[i] ≥ i and ascending: what is overwritten is not needed any more.
    for (std::size_t i = 0; i < round.kept.size(); ++i)
      if (float* from = parts[round.kept[i]]; from != nodes_[i][u])
        std::memcpy(nodes_[i][u] + first, from + first, bytes(last - first));
  });
}

void Sharded::before_backward(int unit) {
  auto u = static_cast<std::size_t>(unit);
  need_values(u, -1);
  if (in_step()) bind_gradient(u);
  poll();
}

void Sharded::after_backward(int unit) {
  launch(static_cast<std::size_t>(unit), round_);
  poll();
}

void Sharded::poll() {
  for (std::size_t u = flights_.size(); u-- > 0;)
    if (flights_[u].pending && flights_[u].pending->test()) land(u);
}

// The others' last micro-step, seen from a rank that has none: same order of units as the model's.
void Sharded::join_last_round() {
  auto round = static_cast<std::int64_t>(rounds_.size()) - 1;
  for (std::size_t u = 0; u < units(); ++u) need_values(u, 1);
  for (std::size_t u = units(); u-- > 0;) {
    if (u > 0 && u + 1 < units()) need_values(u, -1);
    if (store_->units()[u].size > 0) take_buffer(u);
    launch(u, round);
    poll();
  }
}

std::span<Shard> Sharded::finish_gradients() {
  DML_CHECK(round_ + 1 == mine_.count, "{} of {} micro-batches were computed", round_ + 1, mine_.count);
  if (mine_.count < static_cast<std::int64_t>(rounds_.size())) join_last_round();
  for (std::size_t u = units(); u-- > 0;)
    if (flights_[u].pending) land(u);
  for (std::size_t u = 0; u < units(); ++u)
    DML_CHECK(store_->units()[u].size == 0 || flights_[u].round + 1 == static_cast<std::int64_t>(rounds_.size()),
              "the gradient of {} never became final", store_->units()[u].name);
  for (Shard& shard : shards_)
    shard.grad = {nodes_[0][shard.unit] + shard.parameter->offset + shard.first - own(shard.unit).first,
                  static_cast<std::size_t>(shard.size)};
  return shards_;
}

double Sharded::squared_gradient_norm() {
  return squared_norm(comm_, *store_, [this](std::size_t unit) { return nodes_[0][unit]; });
}

void Sharded::end_step() {
  for (Unit& unit : store_->units()) unit.grad = nullptr;
  for (Shard& shard : shards_) shard.grad = {};
  total_ = 0;
}

// ---- values

Sharded::ValueBuffer& Sharded::start_gathering(std::size_t u) {
  for (ValueBuffer& buffer : value_buffers_)
    if (buffer.unit == static_cast<std::ptrdiff_t>(u)) return buffer;
  std::size_t k = u == 0 ? 0 : u + 1 == units() ? 1 : 2;
  for (std::size_t other = 3; k >= 2 && other < value_buffers_.size(); ++other)
    if (value_buffers_[other].used < value_buffers_[k].used) k = other;
  ValueBuffer& buffer = value_buffers_[k];
  if (buffer.pending) buffer.pending->wait();
  if (buffer.unit >= 0) store_->units()[static_cast<std::size_t>(buffer.unit)].value = nullptr;
  buffer.unit = static_cast<std::ptrdiff_t>(u);
  buffer.pending = gather_slices(comm_, store_->units()[u].size, own_values_[u], buffer.data,
                                 {"gathering of values", unit_channel(u, kValues)});
  return buffer;
}

void Sharded::need_values(std::size_t u, int direction) {
  if (values_ == Values::whole || shown_.capacity() > 0) return;
  auto has_values = [&](std::size_t unit) { return unit < units() && store_->units()[unit].size > 0; };
  if (has_values(u)) {
    ValueBuffer& buffer = start_gathering(u);
    buffer.used = ++clock_;
    if (buffer.pending) buffer.pending->wait();
    buffer.pending.reset();
    store_->units()[u].value = buffer.data;
  }
  std::size_t next = u + static_cast<std::size_t>(direction);  // wraps round below 0: no such unit
  if (has_values(next)) start_gathering(next).used = ++clock_;
}

void Sharded::forget_values() {
  for (ValueBuffer& buffer : value_buffers_) {
    if (buffer.pending) buffer.pending->wait();
    buffer.pending.reset();
    if (buffer.unit >= 0) store_->units()[static_cast<std::size_t>(buffer.unit)].value = nullptr;
    buffer.unit = -1;
  }
}

void Sharded::publish() {
  if (values_ == Values::sharded) return forget_values();
  std::vector<std::unique_ptr<Pending>> pending;
  for (std::size_t u = 0; u < units(); ++u)
    if (Unit& unit = store_->units()[u]; unit.size > 0)
      pending.push_back(gather_slices(comm_, unit.size, own_values_[u], unit.value, {"gathering of updated values"}));
  for (auto& p : pending) p->wait();
}

void Sharded::gather_values() {
  if (values_ == Values::whole) return;
  forget_values();
  shown_ = Arena(bytes(store_->floats()));
  for (std::size_t u = 0; u < units(); ++u) {
    Unit& unit = store_->units()[u];
    unit.value = shown_.take<float>(unit.size).data();
    gather_slices(comm_, unit.size, own_values_[u], unit.value, {"gathering of all values"})->wait();
  }
}

void Sharded::release_values() {
  if (values_ == Values::whole) return;
  for (Unit& unit : store_->units()) unit.value = nullptr;
  shown_ = Arena();
}

DistributionStrategy::Memory Sharded::memory(const ParameterStore& store, const StateLayout& state, std::int64_t each) const {
  Memory memory;
  auto slices = [this](const Unit& unit) { return slice_of(unit.size, comm_.rank(), comm_.size()); };
  Arena counting = Arena::measuring();
  cut_shards(store, slices, state, counting);
  memory.state = static_cast<std::int64_t>(counting.used());
  std::size_t places = 0;
  for (const Round& round : plan_rounds(each * comm_.size(), comm_.size()))
    places = std::max(places, round.kept.size());
  std::int64_t owned = 0;
  for (const Unit& unit : store.units()) owned += slices(unit).size();
  std::int64_t full = sum(buffer_sizes(store.units(), [](const Unit& unit) { return unit.size; }));
  std::int64_t received =
      sum(buffer_sizes(store.units(), [&](const Unit& unit) { return (comm_.size() - 1) * slices(unit).size(); }));
  memory.gradients = static_cast<std::int64_t>(bytes(owned) * places + bytes(full));
  memory.communication = static_cast<std::int64_t>(bytes(received));
  memory.values = static_cast<std::int64_t>(bytes(values_ == Values::whole ? store.floats() : owned + full));
  return memory;
}

}  // namespace dml
