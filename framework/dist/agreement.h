// Ranks make sure that they are of one opinion: before the first step about what they were given, later about the
// values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dist/comm.h"
#include "nn/parameter.h"

namespace dml {

/// One thing all ranks must have alike, with a digest or the value itself.
struct AgreementItem {
  std::string name;  // "recipe", "data", "weights", "threads" …
  std::string digest;
};

/// Error(distributed) on every rank, with a table of what differs, unless all ranks hold the same items.
void check_agreement(Comm& comm, const std::vector<AgreementItem>& items);

/// Error(distributed) naming the first unit and parameter whose values are not the same on every rank. Units
/// whose values are sharded have no replicas.
void check_replicas(Comm& comm, const ParameterStore& store);

}  // namespace dml
