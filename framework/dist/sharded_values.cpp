#include "dist/sharded_values.h"

#include "dist/float_work.h"

namespace dml {
namespace {

constexpr std::size_t kValues = 2;  // use of part_channel()
constexpr std::int64_t kStartedAtOnce = std::int64_t{1} << 22;

std::size_t bytes(std::int64_t values, std::int64_t width) { return static_cast<std::size_t>(values * width); }

}  // namespace

ShardedValues::ShardedValues(Comm& group, ParameterStore& store, const std::vector<PartRef>& parts)
    : group_(group),
      store_(store),
      parts_(parts),
      first_of_(first_parts(parts)),
      buffers_(store, group.size(), false),
      width_(store.value_width()),
      states_(parts.size()) {
  auto size = [&](const PartRef& part) { return shard_range(part.size, group.rank(), group.size()).size(); };
  std::int64_t owned = 0;
  for (const PartRef& part : parts) owned += size(part);
  own_ = Arena(bytes(owned, width_));
  for (std::size_t p = 0; p < parts.size(); ++p) {
    own_values_.push_back(own_.take<std::byte>(size(parts[p]) * width_).data());
    take(p);
  }
  store.release();
  gathered_ = Arena(bytes(buffers_.floats(), width_));
  gathered_at_ = gathered_.take<std::byte>(buffers_.floats() * width_).data();
}

void ShardedValues::take(std::size_t p) {
  const Unit& unit = store_.units()[parts_[p].unit];
  ShardRange mine = shard_range(parts_[p].size, group_.rank(), group_.size());
  mine.first += parts_[p].first, mine.last += parts_[p].first;
  if (unit.value) {
    copy_bytes(own_values_[p], unit.value.from(mine.first).data, bytes(mine.size(), width_));
    return;
  }
  for (const Parameter& parameter : unit.parameters) {
    const std::int64_t last = std::min(mine.last, parameter.offset + parameter.size());
    Shard some;
    some.parameter = &parameter;
    for (std::int64_t first = std::max(mine.first, parameter.offset); first < last; first += some.size) {
      some.size = std::min(last - first, kStartedAtOnce);
      bind_values(some, store_, own_values_[p] + (first - mine.first) * width_);
      start_values(some, first - parameter.offset);
    }
  }
}

void ShardedValues::start_values(const Shard& some, std::int64_t first) {
  std::vector<float> rounded(some.value16.size());
  store_.start(*some.parameter, first, first + some.size, rounded.empty() ? some.value.data() : rounded.data());
  if (!rounded.empty()) set_values(some, 0, rounded);
}

void ShardedValues::start(std::size_t p) {
  if (parts_[p].size == 0 || states_[p].held) return;
  for (std::size_t other = 0; other < parts_.size(); ++other)
    if (buffers_.overlap(other, p)) forget(other);
  states_[p].held = true;
  states_[p].pending = gather_value_shards(group_, parts_[p].size, width_, own_values_[p], gathered(p),
                                           {"gathering of values", part_channel(p, kValues)});
}

void ShardedValues::hold(std::size_t p) {
  if (parts_[p].size == 0) return;
  start(p);
  bound(p).value = store_.values_at(gathered(p));
  if (!states_[p].pending) return;
  states_[p].pending->wait();
  states_[p].pending.reset();
  if (parts_[p].part == 0) store_.widen(parts_[p].unit);
}

void ShardedValues::enter(std::size_t u, int direction) {
  direction_ = direction;
  if (shows()) return;
  hold(first_of_[u]);
  if (std::size_t count = first_of_[u + 1] - first_of_[u]; count > 1 && !(u == 0 && direction < 0))
    start(direction > 0 ? first_of_[u] + 1 : first_of_[u + 1] - 1);
  const std::size_t next = u + static_cast<std::size_t>(direction);  // below 0: no such unit
  if (next >= store_.units().size() || buffers_.overlap(first_of_[next], first_of_[u])) return;
  // The embedding's values are read in the forward pass only.
  if (direction < 0 && next == 0 && store_.embedding_and_head_share_buffer) return;
  start(first_of_[next]);
}

// The next large part of the pass; parts_.size() where no further one will be read: the pass ends with a unit that is
// only recomputed, and before the embedding, whose values are read in the forward pass only.
std::size_t ShardedValues::next_large(std::size_t p, int direction) const {
  const std::size_t u = parts_[p].unit;
  std::size_t next = p + static_cast<std::size_t>(direction);
  if (next == first_of_[u] || next == first_of_[u + 1]) {
    if (direction != direction_ || (direction < 0 && u <= 1)) return parts_.size();
    next = direction > 0 ? first_of_[u + 1] + 1 : first_of_[u] - 1;
  }
  return next < parts_.size() && parts_[next].part > 0 ? next : parts_.size();
}

void ShardedValues::gather_ahead(std::size_t part, int direction) {
  std::vector<std::size_t> kept{part};  // the current part and the gathered ones ahead of it
  auto in_the_way = [&](std::size_t next) {
    return std::ranges::any_of(kept, [&](std::size_t other) { return buffers_.overlap(other, next); });
  };
  for (std::size_t next = next_large(part, direction); next < parts_.size() && !in_the_way(next);
       next = next_large(next, direction)) {
    start(next);
    kept.push_back(next);
  }
}

void ShardedValues::forget(std::size_t p) {
  if (!states_[p].held) return;
  if (states_[p].pending) states_[p].pending->wait();
  states_[p] = {};
  bound(p).value = nullptr;
}

void ShardedValues::forget() {
  for (std::size_t p = 0; p < states_.size(); ++p) forget(p);
}

void ShardedValues::show(std::size_t u) {
  release_shown();
  shown_ = Arena(bytes(store_.units()[u].size, width_));
  gather_whole(u);
}

// Rank 0 broadcasts the number of the unit it wants to read.
void ShardedValues::read_on_first_rank(const std::function<void(const DistributionStrategy::Show& show)>& read) {
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

void ShardedValues::gather_all() {
  shown_ = Arena(bytes(store_.floats(), width_));
  for (std::size_t u = 0; u < store_.units().size(); ++u) gather_whole(u);
}

void ShardedValues::gather_whole(std::size_t u) {
  Unit& unit = store_.units()[u];
  std::byte* whole = shown_.take<std::byte>(unit.size * width_).data();
  unit.value = store_.values_at(whole);
  for (std::size_t p = first_of_[u]; p < first_of_[u + 1]; ++p)
    gather_value_shards(group_, parts_[p].size, width_, own_values_[p], whole + parts_[p].first * width_,
                        {"gathering of all values"})
        ->wait();
  store_.widen(u);
}

void ShardedValues::release_shown() {
  for (Unit& unit : store_.units()) unit.value = nullptr;
  shown_ = Arena();
}

}  // namespace dml
