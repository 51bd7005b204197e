#include "diagnose/rank_checks.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "core/clock.h"
#include "core/hash.h"
#include "core/version.h"
#include "kernels/processor.h"

namespace dml {
namespace {

using Verdict = Finding::Verdict;
constexpr double kClockNote = 1;                        // seconds apart
constexpr std::size_t kAllPairs = 8;                    // ranks; beyond, only neighbors are measured
constexpr std::size_t kMessage = std::size_t{8} << 20;  // bytes, for bandwidth
constexpr int kRounds = 50;                             // for latency

/// One exchange between this rank and `peer`, both ways.
void swap_with(Comm& comm, int peer, std::span<const std::byte> send, std::span<std::byte> receive, const char* name) {
  std::vector<std::span<const std::byte>> to(static_cast<std::size_t>(comm.size()));
  std::vector<std::span<std::byte>> from(to.size());
  to[static_cast<std::size_t>(peer)] = send;
  from[static_cast<std::size_t>(peer)] = receive;
  comm.exchange(std::move(to), std::move(from), {name})->wait();
}

struct Link {
  double latency = 0, bandwidth = 0, offset = 0;  // seconds, bytes/s each way at once, peer's clock minus this rank's
};

Link measure(Comm& comm, int peer) {
  Link link;
  double own_clock = 0, peer_clock = 0, best = 1e9;
  auto bytes = [](double& d) { return std::as_writable_bytes(std::span(&d, 1)); };
  for (int i = 0; i < kRounds; ++i) {
    auto start = Clock::now();
    own_clock = unix_time();
    swap_with(comm, peer, bytes(own_clock), bytes(peer_clock), "measuring latency");
    double took = seconds_since(start);
    // Both clocks are read at about the same time, since the previous exchange has synchronized the ranks.
    if (i > 0 && took < best) best = took, link.offset = peer_clock - own_clock;
  }
  link.latency = best;
  std::vector<std::byte> out(kMessage), in(kMessage);
  for (int i = 0; i < 3; ++i) {
    auto start = Clock::now();
    swap_with(comm, peer, out, in, "measuring bandwidth");
    link.bandwidth = std::max(link.bandwidth, static_cast<double>(kMessage) / seconds_since(start));
  }
  return link;
}

std::vector<std::pair<int, int>> pairs_of(int ranks) {
  std::vector<std::pair<int, int>> pairs;
  for (int a = 0; a < ranks; ++a)
    for (int b = a + 1; b < ranks; ++b)
      if (static_cast<std::size_t>(ranks) <= kAllPairs || b == a + 1) pairs.emplace_back(a, b);
  return pairs;
}

}  // namespace

std::string affinity_text() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return "unknown";
  std::string text;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    int last = cpu;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpu);
    if (last > cpu) text += fmt::format("-{}", last);
    cpu = last;
  }
  return text;
}

void examine_ranks(Comm& comm, Diagnosis& out) {
  // The facts that ranks compare, field by field.
  std::string program = digest_of_file("/proc/self/exe");
  const std::vector<std::string> fields{comm.host(), version(), program.substr(0, 12), kernels::isa_name(),
                                        affinity_text()};
  std::vector<std::vector<std::string>> told;
  for (const std::string& field : fields) told.push_back(comm.all_gather(field));
  out.ranks.push_back({"rank", "host", "version", "program", "loops", "cores"});
  for (int r = 0; r < comm.size(); ++r) {
    std::vector<std::string> row{std::to_string(r)};
    for (auto& column : told) row.push_back(column[static_cast<std::size_t>(r)]);
    out.ranks.push_back(std::move(row));
  }
  auto differs = [&](std::size_t column) {
    return std::ranges::any_of(told[column], [&](auto& v) { return v != told[column][0]; });
  };
  if (differs(2))
    out.findings.push_back(
        {Verdict::bad, "programs", "the ranks run different builds of dml", "install the same build on every host"});
  if (differs(3))
    out.findings.push_back({Verdict::bad, "processors", "the ranks use different instruction sets",
                            "their results would differ; set DML_ISA=avx2 on all ranks"});

  out.links.push_back({"ranks", "latency", "bandwidth each way", "clocks apart"});
  double farthest = 0;
  for (auto [a, b] : pairs_of(comm.size())) {
    comm.barrier();
    Link link;
    if (comm.rank() == a) link = measure(comm, b);
    if (comm.rank() == b) measure(comm, a);
    std::string told_by_a = comm.broadcast_text(std::string(reinterpret_cast<const char*>(&link), sizeof link), a);
    std::memcpy(&link, told_by_a.data(), sizeof link);
    farthest = std::max(farthest, std::abs(link.offset));
    out.links.push_back({fmt::format("{} – {}", a, b), fmt::format("{:.0f} µs", link.latency * 1e6),
                         fmt::format("{:.2f} GB/s", link.bandwidth / 1e9),
                         fmt::format("{:.1f} ms", std::abs(link.offset) * 1e3)});
  }
  if (farthest > kClockNote)
    out.findings.push_back({Verdict::note, "clocks", fmt::format("up to {:.1f} s apart", farthest),
                            "training is not affected, but the times in logs are misleading; run an NTP client"});
}

}  // namespace dml
