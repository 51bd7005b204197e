#include "dist/group_comm.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/error.h"

namespace dml {

GroupComm::GroupComm(Comm& whole, std::vector<int> members) : whole_(whole), members_(std::move(members)) {
  auto me = std::ranges::find(members_, whole.rank());
  DML_CHECK(me != members_.end());
  rank_ = static_cast<int>(me - members_.begin());
}

std::unique_ptr<Pending> GroupComm::exchange(std::vector<std::span<const std::byte>> send,
                                             std::vector<std::span<std::byte>> receive, Operation operation) {
  DML_CHECK(send.size() == members_.size() && receive.size() == members_.size());
  std::vector<std::span<const std::byte>> all_send(static_cast<std::size_t>(whole_.size()));
  std::vector<std::span<std::byte>> all_receive(all_send.size());
  for (std::size_t i = 0; i < members_.size(); ++i) {
    all_send[static_cast<std::size_t>(members_[i])] = send[i];
    all_receive[static_cast<std::size_t>(members_[i])] = receive[i];
  }
  return whole_.exchange(std::move(all_send), std::move(all_receive), operation);
}

GroupPlace one_group(const Comm& comm) {
  GroupPlace all;
  all.inside.resize(static_cast<std::size_t>(comm.size()));
  std::iota(all.inside.begin(), all.inside.end(), 0);
  all.across = {comm.rank()};
  all.place = comm.rank();
  return all;
}

GroupPlace group_ranks(Comm& comm, int size) {
  if (comm.size() == 1) return one_group(comm);
  // Ranks in the order of their hosts' first ranks, then by number.
  std::vector<std::string> hosts = comm.all_gather(comm.host());
  std::map<std::string, int> first, count;
  for (int r = 0; r < comm.size(); ++r) {
    first.try_emplace(hosts[static_cast<std::size_t>(r)], r);
    ++count[hosts[static_cast<std::size_t>(r)]];
  }
  std::vector<int> order(hosts.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int r) { return first.at(hosts[static_cast<std::size_t>(r)]); });

  if (size == 0) {
    size = count.begin()->second;
    for (auto& [host, n] : count)
      if (n != size)
        throw UserError(
            "distribution: the groups are the ranks of a host, but {} has {} ranks and {} has {}; start the same "
            "number "
            "on each, or set dp_shard_size",
            count.begin()->first, size, host, n);
  }
  if (comm.size() % size != 0)
    throw UserError("dp_shard_size: {} ranks cannot be cut into groups of {}", comm.size(), size);

  GroupPlace out;
  auto me = static_cast<int>(std::ranges::find(order, comm.rank()) - order.begin());
  out.place = me % size;
  out.group = me / size;
  for (int i = 0; i < size; ++i) out.inside.push_back(order[static_cast<std::size_t>(out.group * size + i)]);
  for (int g = 0; g < comm.size() / size; ++g)
    out.across.push_back(order[static_cast<std::size_t>(g * size + out.place)]);
  return out;
}

}  // namespace dml
