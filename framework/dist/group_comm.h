// A Comm over some ranks of another Comm, and the division of ranks into groups for hybrid strategies: values are
// sharded within a group and replicated across the ranks with the same position in their groups.
#pragma once

#include <vector>

#include "dist/comm.h"

namespace dml {

/// Operations are collective among the members only. Two groups that share two or more ranks must not be used at the
/// same time: messages of the same channel between the same ranks are matched in order.
class GroupComm : public Comm {
 public:
  /// `members`: ranks of `whole`, including this one; the same list on every member.
  GroupComm(Comm& whole, std::vector<int> members);
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  int local_rank() const override { return whole_.local_rank(); }
  int local_size() const override { return whole_.local_size(); }
  std::string host() const override { return whole_.host(); }
  std::unique_ptr<Pending> exchange(std::vector<std::span<const std::byte>> send,
                                    std::vector<std::span<std::byte>> receive, Operation operation) override;
  void abort(int code) override { whole_.abort(code); }

 private:
  Comm& whole_;
  std::vector<int> members_;
  int rank_ = 0;
};

/// This rank's position: `inside` lists the ranks of its group, `across` those with the same position in every group.
struct GroupPlace {
  std::vector<int> inside, across;
  int place = 0, group = 0;
  int groups() const { return static_cast<int>(across.size()); }
};
/// Divides the ranks into groups of `size`, ranks of one host next to each other; 0: one group per host. Rank 0 is the
/// first of group 0. A collective. UserError when the groups would differ in size.
GroupPlace group_ranks(Comm& comm, int size);
/// A single group of all ranks.
GroupPlace one_group(const Comm& comm);

}  // namespace dml
