#include "core/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "core/affinity.h"
#include "core/log.h"
#include "core/page_policy.h"

namespace dml {
namespace {

using Group = std::pair<int, int>;  // NUMA node and L3 cache
Group group_of(const HostCore& core) { return {core.numa_node, core.cache}; }

// Cores of a group beside each other, in the order of their groups.
std::vector<HostCore> grouped(std::vector<HostCore> cores) {
  std::ranges::stable_sort(cores, {}, group_of);
  return cores;
}

// Why threads are not bound; "" if they are.
std::string reason_against(const std::vector<HostCore>& cores, const PlacementRequest& r) {
  const int all = static_cast<int>(cores.size()), all_threads = r.threads * r.ranks;
  if (r.affinity == ThreadAffinity::none) return "thread_affinity: none";
  if (cores.empty()) return "the topology is unknown";
  if (group_of(cores.front()) == group_of(cores.back())) return "all cores share one L3 cache and NUMA node";
  if (all_threads > all) return fmt::format("{} threads on {} cores", all_threads, all);
  if (r.affinity == ThreadAffinity::close) return "";
  // Other processes may have the same processors, and would be bound to the same first cores.
  if (r.quota > 0 && r.quota < all) return fmt::format("processor time is limited to {} of {} cores", r.quota, all);
  if (r.threads < all / r.ranks) return fmt::format("{} of {} cores are left to others", all - all_threads, all);
  return "";
}

std::vector<int> nodes_of(std::span<const HostCore> cores) {
  std::set<int> nodes;
  for (const HostCore& core : cores) nodes.insert(core.numa_node);
  return {nodes.begin(), nodes.end()};
}

std::string range_text(std::size_t first, std::size_t last) {
  return first == last ? fmt::format("{}", first) : fmt::format("{}–{}", first, last);
}

// "0–7 on L3 group 0, NUMA node 0; 8–15 on L3 group 1, NUMA node 0".
std::string placement_text(std::span<const HostCore> mine, const std::map<Group, int>& numbers) {
  std::string text;
  for (std::size_t first = 0; first < mine.size();) {
    std::size_t last = first;
    while (last + 1 < mine.size() && group_of(mine[last + 1]) == group_of(mine[first])) ++last;
    text +=
        fmt::format("{}{} on {} group {}, NUMA node {}", text.empty() ? "" : "; ", range_text(first, last),
                    mine[first].cache < 0 ? "core" : "L3", numbers.at(group_of(mine[first])), mine[first].numa_node);
    first = last + 1;
  }
  return text;
}

}  // namespace

Placement place_threads(const Topology& host, const PlacementRequest& request) {
  const std::vector<HostCore> cores = grouped(host.each_core);
  if (const std::string reason = reason_against(cores, request); !reason.empty())
    return {{}, nodes_of(cores), "not bound: " + reason};
  const auto threads = static_cast<std::size_t>(request.threads);
  const std::span mine = std::span(cores).subspan(static_cast<std::size_t>(request.rank) * threads, threads);
  std::map<Group, std::vector<int>> of_group;
  for (const HostCore& core : mine) of_group[group_of(core)].push_back(core.processors.front());
  Placement out;
  out.nodes = nodes_of(mine);
  for (const HostCore& core : mine) out.processors.push_back(of_group[group_of(core)]);
  std::map<Group, int> numbers;
  for (const HostCore& core : cores) numbers.emplace(group_of(core), static_cast<int>(numbers.size()));
  out.text = placement_text(mine, numbers);
  return out;
}

void apply_placement(int count, Placement placement) {
  set_threads(count, std::move(placement.processors));
  set_thread_nodes(std::move(placement.nodes));
}

void set_placed_threads(int count, ThreadAffinity affinity) {
  Placement placement =
      place_threads(this_topology(), {.threads = count, .affinity = affinity, .quota = available_cores()});
  log_debug("{} threads: {}", count, placement.text);
  apply_placement(count, std::move(placement));
}

}  // namespace dml
