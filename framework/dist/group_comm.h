// Some of a Comm's ranks as a Comm of their own, and how `hybrid` cuts ranks into groups: zero within a group, ddp
// between the ranks that hold the same place in their groups.
#pragma once

#include <vector>

#include "dist/comm.h"

namespace dml {

/// Operations must be collective among the members alone. Two groups that share two or more ranks must not be used at
/// the same time: messages of the same channel between the same ranks are matched in order.
class GroupComm : public Comm {
 public:
  /// `members`: ranks of `whole`, this one among them, the same list on every member.
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

/// Where this rank stands: `inside` are the ranks of its group, `across` those that hold its place in every group.
struct GroupPlace {
  std::vector<int> inside, across;
  int place = 0, group = 0;
  int groups() const { return static_cast<int>(across.size()); }
};
/// Groups of `size` ranks, those of one host side by side; 0: the ranks of a host. Rank 0 is the first of group 0. A
/// collective. UserError where ranks do not come out even.
GroupPlace group_ranks(Comm& comm, int size);
/// One group of all.
GroupPlace one_group(const Comm& comm);

}  // namespace dml
