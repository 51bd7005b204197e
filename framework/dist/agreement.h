// Checks that all ranks agree: before the first step on their inputs, later on the values they hold.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "dist/comm.h"
#include "dist/strategy.h"

namespace dml {

/// An input that must be equal on all ranks, with its digest or its value.
struct AgreementItem {
  std::string name;  // "recipe", "data", "weights", "threads" …
  std::string digest;
};

/// Compares the items of all ranks. Error(distributed) on every rank, with a table of the differences, unless all are
/// equal.
void check_agreement(Comm& comm, const std::vector<AgreementItem>& items);

/// A mistake of the user that all ranks report at the same point, so that they may still act together before they end.
class AgreedError : public UserError {
 public:
  using UserError::UserError;
};

/// A buffer of which several ranks hold a copy.
struct Replica {
  std::string what;  // "values of NAME in UNIT"
  std::span<const std::byte> data;
};
/// Compares replicas between the ranks of `comm`. Error(distributed) naming the first one that differs, and which ranks
/// agree; `rank` is this rank's number in the whole job.
void check_replicas(Comm& comm, std::span<const Replica> replicas, int rank);
/// The values of all units that every rank holds in full.
std::vector<Replica> value_replicas(const ParameterStore& store);
/// Values and optimizer state of shards, for ranks that hold the same shards (DistributionStrategy::replica_group).
std::vector<Replica> shard_replicas(const ParameterStore& store, std::span<const Shard> shards);

}  // namespace dml
