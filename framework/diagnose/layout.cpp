#include "diagnose/layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/rounding.h"

namespace dml {
namespace {

// S3 (LoRA, width 768) with 16 micro-batches of 256 tokens on 16 cores: 1,745 tokens/s as 1 rank × 16 threads, 4,137 as
// 16 × 1. S7 (the same in full) there: 1,343 as 1 × 16, the most, 2,091, as 2 × 8.
// By work and span alone (dml bench --scaling), without waiting for memory and each other, kWaiting would be 8300.
constexpr double kWaiting = 18000;    // tokens × width that a thread loses by not being alone
constexpr double kExchange = 0.4e-9;  // seconds a byte and further rank
constexpr double kFarCache = 1.05, kFarNode = 1.15;
constexpr double kClearly = 0.9;      // of the time of one rank
constexpr double kMoreRanks = 0.97;   // of the time of fewer ranks, which take less memory
constexpr double kStarting = 10;      // seconds that ranks must save to be worth starting
constexpr double kMemoryShare = 0.7;  // of what is available: the plan of a run that has not begun is rough

// Whether the threads of some rank lie in more than one of `groups` equal groups of cores.
bool spans(const RankLayout& layout, std::int64_t cores, std::int64_t groups) {
  if (groups < 2) return false;
  const std::int64_t of_group = cores / groups;
  return of_group == 0 || of_group % layout.threads != 0;
}

double farness(const Topology& host, const RankLayout& layout) {
  if (spans(layout, host.cores, host.numa_nodes)) return kFarNode;
  return spans(layout, host.cores, host.cache_groups) ? kFarCache : 1;
}

// Why one rank is slower: its threads wait for each other, or for memory.
std::string slowness(const Topology& host, const RunShape& run) {
  const RankLayout alone{1, host.cores};
  const double waiting = static_cast<double>(host.cores - 1) * kWaiting / (run.tokens * run.width);
  if (farness(host, alone) - 1 > waiting)
    return host.numa_nodes > 1 ? fmt::format("each in a NUMA node of {}", host.numa_nodes)
                               : fmt::format("each with an L3 cache of {}", host.cache_groups);
  return fmt::format("micro-batches of {:.0f} tokens are small for {} threads", run.tokens, host.cores);
}

}  // namespace

std::string RankLayout::text() const {
  return fmt::format("{} {} × {} {}", ranks, ranks == 1 ? "rank" : "ranks", threads,
                     threads == 1 ? "thread" : "threads");
}

std::vector<RankLayout> layouts_for(std::int64_t cores, std::int64_t micro_batches) {
  std::vector<RankLayout> out;
  for (std::int64_t ranks = 1; ranks <= std::min(cores, micro_batches); ++ranks)
    if (cores % ranks == 0) out.push_back({ranks, cores / ranks});
  return out;
}

double step_seconds(const Topology& host, const RunShape& run, const RankLayout& layout) {
  const auto threads = static_cast<double>(layout.threads), others = static_cast<double>(layout.ranks - 1);
  const auto rounds = static_cast<double>(ceil_div(run.micro_batches, layout.ranks));
  const double pass = run.tokens * run.operations / (run.rate * threads);
  const double waiting = 1 + (threads - 1) * kWaiting / (run.tokens * run.width);
  return rounds * pass * waiting * farness(host, layout) + others * run.exchanged * kExchange;
}

LayoutChoice choose_layout(const Topology& host, std::size_t room, const RunShape& run) {
  const RankLayout alone{1, host.cores};
  if (run.micro_batches < 2) return {alone, "a step has one micro-batch"};
  const double one = step_seconds(host, run, alone);
  double least = kClearly * one;
  LayoutChoice best{alone, "more ranks would not be faster"};
  for (const RankLayout& layout : layouts_for(host.cores, run.micro_batches)) {
    const double seconds = step_seconds(host, run, layout);
    if (layout.ranks == 1 || seconds >= (best.layout == alone ? least : kMoreRanks * least)) continue;
    const std::optional<std::size_t> need = run.memory(layout.ranks);
    const bool fits = need && (room == 0 || static_cast<double>(*need) <= kMemoryShare * static_cast<double>(room));
    if (fits) {
      least = seconds;
      best = {layout, slowness(host, run)};
    } else if (best.layout == alone) {
      best.why = need ? "there is no memory for more ranks" : "'distribution' refuses more ranks";
    }
  }
  if (best.layout == alone) return best;
  if ((one - least) * static_cast<double>(run.steps) < kStarting)
    return {alone, "the run is too short for more ranks to be worth starting"};
  return best;
}

}  // namespace dml
