#include "dist/shards.h"

#include <cstring>

#include "core/parallel.h"
#include "core/profile.h"
#include "dist/float_work.h"
#include "kernels/elementwise.h"
#include "kernels/runs.h"

namespace dml {
namespace {

constexpr std::int64_t kBlocksATask = 64;  // of a sum of squares

}  // namespace

std::unique_ptr<Pending> gather_shards(Comm& comm, std::int64_t size, float* own, float* whole, Operation operation,
                                       Wire wire) {
  ShardRange mine = shard_range(size, comm.rank(), comm.size());
  if (own != whole + mine.first && mine.size() > 0)
    copy_bytes(whole + mine.first, own, static_cast<std::size_t>(mine.size()) * sizeof(float));
  auto ranks = static_cast<std::size_t>(comm.size());
  std::vector<std::span<const std::byte>> send(ranks);
  std::vector<std::span<std::byte>> receive(ranks);
  for (int r = 0; r < comm.size(); ++r) {
    if (r == comm.rank()) continue;
    ShardRange theirs = shard_range(size, r, comm.size());
    send[static_cast<std::size_t>(r)] = wire.bytes(own, mine.size());
    receive[static_cast<std::size_t>(r)] = wire.bytes(whole + theirs.first, theirs.size());
  }
  return comm.exchange(std::move(send), std::move(receive), operation);
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
      if (size <= 0) continue;
      // Of a parameter that its rule needs whole, only who has all of it has its state (whole_parameters.h).
      const bool stateless = size < parameter.trained_size() && layout.whole(parameter);
      shards.push_back({&parameter,
                        unit.number,
                        s,
                        first - parameter.offset,
                        size,
                        {},
                        {},
                        state.take<float>(stateless ? 0 : layout.floats(parameter, size))});
    }
  }
  return shards;
}

double squared_norm(Comm& comm, std::span<const PartRef> parts, const std::function<const float*(std::size_t)>& own) {
  ProfileScope profiled("gradient_norm");
  auto blocks_in = [](ShardRange range) { return (range.size() + kShardBlock - 1) / kShardBlock; };
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

std::string first_not_finite_gradient(Comm& comm, const ParameterStore& store, std::span<const Shard> shards) {
  // Unit and offset in front, with leading zeros: texts compare in the order of the model.
  std::string mine;
  for (const Shard& shard : shards) {
    std::int64_t at = kernels::first_not_finite(shard.grad);
    if (at < 0) continue;
    mine = fmt::format("{:06}{:016}{}: {}[{}] = {}", shard.unit, shard.parameter->offset + shard.first + at,
                       store.units()[shard.unit].name, shard.parameter->name, shard.first + at,
                       shard.grad[static_cast<std::size_t>(at)]);
    break;
  }
  std::string first;
  for (const std::string& text : comm.all_gather(mine))
    if (!text.empty() && (first.empty() || text < first)) first = text;
  return first.empty() ? first : first.substr(22);
}

}  // namespace dml
