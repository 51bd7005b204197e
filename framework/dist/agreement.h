// Ranks make sure that they are of one opinion: before the first step about what they were given, later about the
// values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dist/comm.h"
#include "dist/strategy.h"

namespace dml {

/// One thing all ranks must have alike, with a digest or the value itself.
struct AgreementItem {
  std::string name;  // "recipe", "data", "weights", "threads" …
  std::string digest;
};

/// Error(distributed) on every rank, with a table of what differs, unless all ranks hold the same items.
void check_agreement(Comm& comm, const std::vector<AgreementItem>& items);

/// Something of which several ranks hold a copy.
struct Replica {
  std::string what;  // "values of NAME in UNIT"
  std::span<const float> data;
};
/// Error(distributed) naming the first replica that is not the same on every rank of `comm`, and who holds what; `rank` is
/// this one's number in the whole job.
void check_replicas(Comm& comm, std::span<const Replica> replicas, int rank);
/// Values of the units that every rank holds whole.
std::vector<Replica> value_replicas(const ParameterStore& store);
/// Values and optimizer state, for ranks that hold the very same shards (DistributionStrategy::twins).
std::vector<Replica> shard_replicas(const ParameterStore& store, std::span<const Shard> shards);

}  // namespace dml
