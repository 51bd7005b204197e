// A distribution strategy: combines the gradients of several ranks. Every rank holds all values and the whole state, as
// with ddp; the strategy decides what is exchanged (compression, another topology, rounds without exchange).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dml/registry.h"

namespace dml::plugin {

/// Communication of a strategy. All calls are collective: every rank makes the same calls in the same order.
class Ranks {
 public:
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Sends send[r] to rank r and receives receive[r] from it. Both have size() entries, sizes match pairwise, and
  /// nothing is sent for an empty entry.
  virtual void exchange(std::span<const std::span<const std::byte>> send,
                        std::span<const std::span<std::byte>> receive) = 0;

 protected:
  ~Ranks() = default;
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Called before the first step. units[u]: the number of floats of unit u (embedding, layers, head).
  virtual void begin(std::span<const std::int64_t> /*units*/, int /*ranks*/) {}
  /// Replaces this rank's gradient, summed over its micro-batches, by the sum over all ranks. The result must have the
  /// same bits on every rank, or the models diverge.
  virtual void sum(std::size_t unit, std::span<float> gradient, Ranks& ranks) = 0;
  /// Bytes that the strategy allocates, for the memory plan. floats: the size of all units together.
  virtual std::int64_t memory(std::int64_t /*floats*/, int /*ranks*/) const { return 0; }
};

}  // namespace dml::plugin
