#include "dist/sharded.h"

#include <cstring>

#include "core/parallel.h"

namespace dml {
namespace {

constexpr std::size_t kShared = 3;  // buffers the layers take in turn: one in use, two under way
constexpr std::int64_t kBlock = 4096;
constexpr std::size_t kGradients = 1, kValues = 2;  // places for unit_channel()

// Buffer 0 is the first unit's, 1 the last one's (or 0 where they take turns), the others are as large as the largest unit
// between.
template <class Size>
std::vector<std::int64_t> buffer_sizes(const ParameterStore& store, Size size) {
  const std::vector<Unit>& units = store.units();
  std::vector<std::int64_t> sizes{size(units.front()), units.size() > 1 ? size(units.back()) : 0};
  if (store.ends_take_turns) sizes = {std::max(sizes[0], sizes[1]), 0};
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
    auto sizes = buffer_sizes(store, [](const Unit& unit) { return unit.size; });
    gathered_ = Arena(bytes(sum(sizes)));
    for (std::int64_t size : sizes) value_buffers_.emplace_back().data = gathered_.take<float>(size).data();
  } else {
    for (std::size_t u = 0; u < units(); ++u) own_values_.push_back(store.units()[u].value + own(u).first);
  }
  for (Shard& shard : shards_)
    shard.value = {own_values_[shard.unit] + shard.parameter->offset + shard.first - own(shard.unit).first,
                   static_cast<std::size_t>(shard.size)};

  auto full = buffer_sizes(store, [](const Unit& unit) { return unit.size; });
  auto received = buffer_sizes(store, [&](const Unit& unit) { return (group_.size() - 1) * slice(unit).size(); });
  gradients_ = Arena(bytes(sum(full) + sum(received)));
  for (std::size_t k = 0; k < full.size(); ++k)
    gradient_buffers_.push_back({gradients_.take<float>(full[k]).data(), gradients_.take<float>(received[k]).data()});
  flights_.resize(units());
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
  for (Flight& flight : flights_) flight.round = -1;
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

std::size_t Sharded::end_buffer(std::size_t unit) const { return unit == 0 || store_->ends_take_turns ? 0 : 1; }

std::size_t Sharded::take_buffer(std::size_t unit) {
  if (flights_[unit].pending) land(unit);
  const bool end = unit == 0 || unit + 1 == units();
  std::size_t k = end ? end_buffer(unit) : 2 + turn_++ % (gradient_buffers_.size() - 2);
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
  auto ranks = static_cast<std::size_t>(group_.size()), me = static_cast<std::size_t>(group_.rank());
  std::size_t leaves = rounds_[static_cast<std::size_t>(round)].leaves;
  std::vector<std::span<const std::byte>> send(ranks);
  std::vector<std::span<std::byte>> receive(ranks);
  float* room = buffer.received;
  for (std::size_t r = 0; r < ranks; ++r) {
    if (r == me) continue;
    Slice theirs = slice_of(unit.size, static_cast<int>(r), group_.size());
    if (me < leaves) {
      wire_.pack(buffer.full + theirs.first, theirs.size(),
                 residuals_.of(u) ? residuals_.of(u) + theirs.first : nullptr);
      send[r] = wire_.bytes(buffer.full + theirs.first, theirs.size());
    }
    if (r >= leaves) continue;
    receive[r] = wire_.bytes(room, own(u).size());
    room += own(u).size();
  }
  flight.round = round;
  flight.pending =
      group_.exchange(std::move(send), std::move(receive), {"exchange of gradients", unit_channel(u, kGradients)});
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
    bool mine = r == static_cast<std::size_t>(group_.rank());
    parts.push_back(mine ? buffer.full + own(u).first : room);
    if (mine) continue;
    wire_.unpack(room, own(u).size());
    room += own(u).size();
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
  if (flight.round + 1 == static_cast<std::int64_t>(rounds_.size())) sum_across(u);
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
  for (std::size_t u = flights_.size(); u-- > 0;)
    if (flights_[u].pending && flights_[u].pending->test()) land(u);
  if (between_groups_ && in_step()) between_groups_->poll();
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

Sharded::ValueBuffer& Sharded::start_gathering(std::size_t u) {
  for (ValueBuffer& buffer : value_buffers_)
    if (buffer.unit == static_cast<std::ptrdiff_t>(u)) return buffer;
  std::size_t k = u == 0 || u + 1 == units() ? end_buffer(u) : 2;
  for (std::size_t other = 3; k >= 2 && other < value_buffers_.size(); ++other)
    if (value_buffers_[other].used < value_buffers_[k].used) k = other;
  ValueBuffer& buffer = value_buffers_[k];
  if (buffer.pending) buffer.pending->wait();
  if (buffer.unit >= 0) store_->units()[static_cast<std::size_t>(buffer.unit)].value = nullptr;
  buffer.unit = static_cast<std::ptrdiff_t>(u);
  buffer.pending = gather_slices(group_, store_->units()[u].size, own_values_[u], buffer.data,
                                 {"gathering of values", unit_channel(u, kValues)});
  return buffer;
}

void Sharded::need_values(std::size_t u, int direction) {
  if (frozen_) frozen_->need(u, direction);
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
  if (direction < 0 && next == 0 && store_->ends_take_turns) return;
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
      pending.push_back(gather_slices(group_, unit.size, own_values_[u], unit.value, {"gathering of updated values"}));
  for (auto& p : pending) p->wait();
}

void Sharded::shard_frozen(const std::vector<std::vector<kernels::Weight*>>& units) {
  if (values_ == Values::sharded && group_.size() > 1) frozen_ = std::make_unique<FrozenShards>(group_, units);
}

void Sharded::show(std::size_t u) {
  if (store_->units()[u].size == 0) return;
  ValueBuffer& buffer = start_gathering(u);
  buffer.used = ++clock_;
  if (buffer.pending) buffer.pending->wait();
  buffer.pending.reset();
  store_->units()[u].value = buffer.data;
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
  std::int64_t full = sum(buffer_sizes(store, [](const Unit& unit) { return unit.size; }));
  std::int64_t received =
      sum(buffer_sizes(store, [&](const Unit& unit) { return (group_.size() - 1) * slices(unit).size(); }));
  memory.gradients = static_cast<std::int64_t>(bytes(owned) * places + bytes(full));
  if (across_.size() > 1) {
    std::vector<MicroBatches> shares;
    for (int g = 0; g < across_.size(); ++g) shares.push_back(contiguous_share(total, g, across_.size()));
    received += Reduction::room(owned_of, shares, total, true);
  }
  memory.communication = static_cast<std::int64_t>(bytes(received)) + Residuals::bytes(store, wire_, comm_.size());
  memory.values = static_cast<std::int64_t>(bytes(values_ == Values::whole ? store.floats() : owned + full));
  return memory;
}

}  // namespace dml
