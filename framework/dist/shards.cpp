#include "dist/shards.h"

#include <cstring>

#include "core/parallel.h"
#include "core/profile.h"
#include "dist/float_work.h"
#include "kernels/elementwise.h"
#include "kernels/range_ops.h"

namespace dml {
namespace {

constexpr std::int64_t kBlocksATask = 64;  // of a sum of squares

}  // namespace

void bind_values(Shard& shard, const ParameterStore& store, std::byte* at) {
  const auto size = static_cast<std::size_t>(shard.size);
  if (store.bf16_values) shard.value16 = {reinterpret_cast<bf16*>(at), size};
  else shard.value = {reinterpret_cast<float*>(at), size};
}

void set_values(const Shard& shard, std::int64_t first, std::span<const float> values) {
  if (shard.value16.empty()) std::ranges::copy(values, shard.value.begin() + first);
  else std::ranges::transform(values, shard.value16.begin() + first, [](float x) { return to_bf16(x); });
}

namespace {

// `sent(p, n)`: the bytes that represent n elements at p in a message.
template <class Bytes>
std::unique_ptr<Pending> gather(Comm& comm, std::int64_t size, std::int64_t width, std::byte* own, std::byte* whole,
                                Operation operation, Bytes sent) {
  const ShardRange mine = shard_range(size, comm.rank(), comm.size());
  if (own != whole + mine.first * width && mine.size() > 0)
    copy_bytes(whole + mine.first * width, own, static_cast<std::size_t>(mine.size() * width));
  auto ranks = static_cast<std::size_t>(comm.size());
  std::vector<std::span<const std::byte>> send(ranks);
  std::vector<std::span<std::byte>> receive(ranks);
  for (int r = 0; r < comm.size(); ++r) {
    if (r == comm.rank()) continue;
    ShardRange peer = shard_range(size, r, comm.size());
    send[static_cast<std::size_t>(r)] = sent(own, mine.size());
    receive[static_cast<std::size_t>(r)] = sent(whole + peer.first * width, peer.size());
  }
  return comm.exchange(std::move(send), std::move(receive), operation);
}

}  // namespace

std::unique_ptr<Pending> gather_shards(Comm& comm, std::int64_t size, float* own, float* whole, Operation operation,
                                       Wire wire) {
  return gather(comm, size, sizeof(float), reinterpret_cast<std::byte*>(own), reinterpret_cast<std::byte*>(whole),
                operation, [&](std::byte* p, std::int64_t n) { return wire.bytes(reinterpret_cast<float*>(p), n); });
}

std::unique_ptr<Pending> gather_value_shards(Comm& comm, std::int64_t size, std::int64_t width, std::byte* own,
                                             std::byte* whole, Operation operation) {
  return gather(comm, size, width, own, whole, operation,
                [width](std::byte* p, std::int64_t n) { return std::span(p, static_cast<std::size_t>(n * width)); });
}

std::vector<PartRef> whole_units(const ParameterStore& store) {
  std::vector<PartRef> all;
  for (const Unit& unit : store.units()) all.push_back({unit.number, 0, 0, unit.size});
  return all;
}

std::vector<PartRef> unit_parts(const ParameterStore& store) {
  std::vector<PartRef> all;
  for (const Unit& unit : store.units())
    for (std::size_t p = 0; p < unit.parts.size(); ++p)
      all.push_back({unit.number, p, unit.parts[p].first, unit.parts[p].size()});
  return all;
}

std::vector<std::int64_t> sizes_of(std::span<const PartRef> parts) {
  std::vector<std::int64_t> sizes;
  for (const PartRef& s : parts) sizes.push_back(s.size);
  return sizes;
}

std::vector<std::size_t> first_parts(std::span<const PartRef> parts) {
  std::vector<std::size_t> first;
  for (std::size_t p = 0; p < parts.size(); ++p)
    if (parts[p].part == 0) first.push_back(p);
  first.push_back(parts.size());
  return first;
}

std::vector<Shard> cut_shards(const ParameterStore& store, std::span<const PartRef> parts,
                              const std::function<ShardRange(const PartRef&)>& owned, const StateLayout& layout,
                              Arena& state) {
  std::vector<Shard> shards;
  for (std::size_t s = 0; s < parts.size(); ++s) {
    const Unit& unit = store.units()[parts[s].unit];
    const ShardRange range = owned(parts[s]);
    for (const Parameter& parameter : unit.parameters) {
      std::int64_t first = std::max(parts[s].first + range.first, parameter.offset + parameter.trained_first);
      std::int64_t size = std::min(parts[s].first + range.last, parameter.offset + parameter.trained_end()) - first;
      // A parameter whose rule needs it whole has state only on the rank that owns all of it (whole_parameters.h).
      const bool whole = layout.whole(parameter), stateless = whole && size < parameter.trained_size();
      const std::int64_t most = store.bf16_values && !whole ? kMaxWidenedElements : size;
      for (; size > 0; first += most, size -= most) {
        const std::int64_t own = std::min(size, most);
        shards.push_back({&parameter,
                          unit.number,
                          s,
                          first - parameter.offset,
                          own,
                          {},
                          {},
                          state.take<float>(stateless ? 0 : layout.floats(parameter, own))});
      }
    }
  }
  return shards;
}

double squared_norm(Comm& comm, std::span<const PartRef> parts, const std::function<const float*(std::size_t)>& own) {
  ProfileScope profiled("gradient_norm");
  auto blocks_in = [](ShardRange range) { return ceil_div(range.size(), kShardBlock); };
  std::string mine;
  for (std::size_t s = 0; s < parts.size(); ++s) {
    ShardRange range = shard_range(parts[s].size, comm.rank(), comm.size());
    std::vector<double> sums(static_cast<std::size_t>(blocks_in(range)));
    const float* gradient = own(s);
    parallel_ranges(std::ssize(sums), kBlocksATask, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t b = first; b < last; ++b) {
        std::int64_t at = b * kShardBlock, size = std::min(kShardBlock, range.size() - at);
        sums[static_cast<std::size_t>(b)] = kernels::sum_of_squares({gradient + at, static_cast<std::size_t>(size)});
      }
    });
    mine.append(reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof(double));
  }
  std::vector<std::string> sums = comm.all_gather(mine);
  std::vector<std::size_t> at(sums.size());
  double total = 0;
  for (const PartRef& part : parts)
    for (int r = 0; r < comm.size(); ++r)
      for (std::int64_t b = blocks_in(shard_range(part.size, r, comm.size())); b > 0; --b) {
        const std::string& text = sums[static_cast<std::size_t>(r)];
        std::size_t& offset = at[static_cast<std::size_t>(r)];
        double sum;
        DML_CHECK(offset + sizeof sum <= text.size());
        std::memcpy(&sum, text.data() + offset, sizeof sum);
        offset += sizeof sum;
        total += sum;
      }
  return total;
}

}  // namespace dml
