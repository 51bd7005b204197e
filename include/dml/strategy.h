// A distribution strategy: how the gradients of several ranks become one. Every rank holds all values and the whole
// state, as with ddp; the strategy decides what travels (compression, another topology, rounds without exchange).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dml/registry.h"

namespace dml::plugin {

/// Communication of a strategy. Calls are collectives: every rank makes the same ones in the same order.
class Ranks {
 public:
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Sends send[r] to rank r and receives receive[r] from it; both have size() entries, sizes agree pairwise, nothing
  /// is sent where they are empty.
  virtual void exchange(std::span<const std::span<const std::byte>> send,
                        std::span<const std::span<std::byte>> receive) = 0;

 protected:
  ~Ranks() = default;
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Before the first step: the units of the model (embedding, layers, head) and their numbers of floats.
  virtual void begin(std::span<const std::int64_t> /*units*/, int /*ranks*/) {}
  /// Replaces the gradient that this rank has summed over its micro-batches by that of all ranks. The result must be
  /// the same on every rank, or their models drift apart.
  virtual void sum(std::size_t unit, std::span<float> gradient, Ranks& ranks) = 0;
  /// Bytes that it holds beside the gradients, for the memory plan; floats: of all units together.
  virtual std::int64_t memory(std::int64_t /*floats*/, int /*ranks*/) const { return 0; }
};

}  // namespace dml::plugin
