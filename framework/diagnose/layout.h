// Chooses the layout that trains a recipe fastest on one host: the number of ranks, and of threads per rank. Several
// ranks compute different micro-batches at the same time, which helps if one micro-batch cannot keep all cores busy. A
// step takes
//
//   ⌈micro-batches ÷ ranks⌉ · operations ÷ (rate · threads) · (1 + (threads − 1) · kWaiting ÷ (tokens · width)) · far
//     + (ranks − 1) · bytes exchanged · kExchange
//
// seconds, where `far` is above 1 for threads that do not all share one L3 cache or NUMA node. The constants in
// layout.cpp fit layouts measured on 16 cores; dml launch --autotune measures the recipe itself.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/topology.h"

namespace dml {

struct RankLayout {
  std::int64_t ranks = 1, threads = 1;  // of each rank
  bool operator==(const RankLayout&) const = default;

  /// "16 ranks × 1 thread".
  std::string text() const;
};

/// Layouts that use all cores, fewest ranks first. There are no more ranks than `micro_batches` of a step, as others
/// would idle.
std::vector<RankLayout> layouts_for(std::int64_t cores, std::int64_t micro_batches);

/// With at most this many cores, the threads of one rank do not wait long for each other.
inline constexpr std::int64_t kFewCores = 4;

/// The properties of a run that decide its layout.
struct RunShape {
  std::int64_t steps = 1, micro_batches = 1;  // micro-batches: of a step
  double tokens = 1;                          // of a micro-batch, on average
  double width = 1;                           // hidden size of the model
  double operations = 1;                      // of a token, forward and backward
  double rate = 1;                            // FLOP/s of one core
  double exchanged = 0;                       // bytes of the gradients
  /// Bytes that this number of ranks takes in total; unset if they cannot train the recipe.
  std::function<std::optional<std::size_t>(std::int64_t ranks)> memory;
};

/// Seconds of a step, by the formula above.
double step_seconds(const Topology& host, const RunShape& run, const RankLayout& layout);

struct LayoutChoice {
  RankLayout layout;
  std::string why;  // the reason, for messages
};
/// The fastest layout on the host's cores among those that fit in memory (`room` bytes; 0: unknown). One rank unless
/// another layout is clearly faster.
LayoutChoice choose_layout(const Topology& host, std::size_t room, const RunShape& run);

}  // namespace dml
