#include "dist/agreement.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "core/error.h"
#include "core/hash.h"
#include "core/parallel.h"

namespace dml {
namespace {

constexpr std::size_t kShown = 24;  // characters of a digest in the table
constexpr std::size_t kRanksShown = 16;

// Packs items as text: length, name, length, digest. Lengths are checked on reading.
std::string pack(const std::vector<AgreementItem>& items) {
  std::string text;
  for (const AgreementItem& item : items)
    for (const std::string* part : {&item.name, &item.digest}) {
      std::uint64_t length = part->size();
      text.append(reinterpret_cast<const char*>(&length), sizeof length).append(*part);
    }
  return text;
}

std::map<std::string, std::string> unpack(std::string_view text) {
  auto next = [&] {
    std::uint64_t length = 0;
    DML_CHECK(text.size() >= sizeof length);
    std::memcpy(&length, text.data(), sizeof length);
    text.remove_prefix(sizeof length);
    DML_CHECK(text.size() >= length);
    std::string part(text.substr(0, length));
    text.remove_prefix(length);
    return part;
  };
  std::map<std::string, std::string> items;
  while (!text.empty()) {
    std::string name = next();
    items[name] = next();
  }
  return items;
}

std::string shown(const std::string& digest) {
  return digest.size() <= kShown ? digest : fmt::format("{}…", digest.substr(0, kShown - 1));
}

}  // namespace

void check_agreement(Comm& comm, const std::vector<AgreementItem>& items) {
  const std::string mine = pack(items);
  std::vector<std::string> digests = comm.all_gather(digest_of(mine));
  if (std::all_of(digests.begin(), digests.end(), [&](const std::string& d) { return d == digests[0]; })) return;
  std::vector<std::string> hosts = comm.all_gather(comm.host()), packed = comm.all_gather(mine);

  std::vector<std::map<std::string, std::string>> held;
  std::map<std::string, bool> differs;
  for (const std::string& p : packed) {
    held.push_back(unpack(p));
    for (auto& [name, digest] : held.back()) differs[name] = false;
  }
  for (auto& [name, is] : differs)
    for (auto& rank : held) is = is || !rank.count(name) || !held[0].count(name) || rank.at(name) != held[0].at(name);
  std::erase_if(differs, [](auto& entry) { return !entry.second; });

  std::vector<std::string> names;
  for (auto& entry : differs) names.push_back(entry.first);
  std::string text = fmt::format("ranks disagree on {}:\n{:>6}  {:<20}", fmt::join(names, ", "), "rank", "host");
  for (auto& name : names) text += fmt::format("  {:<{}}", name, kShown);
  // With many ranks, those that agree with rank 0 are counted instead of listed.
  std::size_t left_out = 0;
  for (std::size_t r = 0; r < held.size(); ++r) {
    if (r >= kRanksShown && packed[r] == packed[0]) {
      ++left_out;
      continue;
    }
    text += fmt::format("\n{:>6}  {:<20}", r, hosts[r]);
    for (auto& name : names) {
      const auto found = held[r].find(name);
      text += fmt::format("  {:<{}}", found == held[r].end() ? "(nothing)" : shown(found->second), kShown);
    }
  }
  if (left_out > 0) text += fmt::format("\n{} more ranks agree with rank 0", left_out);
  throw Error(ExitCode::distributed, text);
}

void check_replicas(Comm& comm, std::span<const Replica> replicas, int rank) {
  if (comm.size() == 1) return;
  std::vector<std::uint64_t> digests{static_cast<std::uint64_t>(rank)};
  digests.resize(1 + replicas.size());
  parallel_for(static_cast<std::int64_t>(replicas.size()), [&](std::int64_t i) {
    const std::span<const std::byte> data = replicas[static_cast<std::size_t>(i)].data;
    digests[static_cast<std::size_t>(i) + 1] = Hasher().bytes(data.data(), data.size()).digest64();
  });
  const std::string mine(reinterpret_cast<const char*>(digests.data()), digests.size() * sizeof(std::uint64_t));
  const std::vector<std::string> all = comm.all_gather(mine);
  auto number = [&](std::size_t r, std::size_t i) {
    std::uint64_t n;
    DML_CHECK(all[r].size() == mine.size(), "the ranks hold different numbers of parameters");
    std::memcpy(&n, all[r].data() + i * sizeof n, sizeof n);
    return n;
  };
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    std::map<std::uint64_t, std::vector<std::uint64_t>> groups_by_digest;
    for (std::size_t r = 0; r < all.size(); ++r) groups_by_digest[number(r, i + 1)].push_back(number(r, 0));
    if (groups_by_digest.size() == 1) continue;
    std::string groups;
    for (auto& [digest, ranks] : groups_by_digest)
      groups += fmt::format("{}{}", groups.empty() ? "" : " | ", fmt::join(ranks, ", "));
    throw Error(ExitCode::distributed,
                fmt::format("the ranks hold different {}; groups of ranks that agree: {}", replicas[i].what, groups));
  }
}

std::vector<Replica> value_replicas(const ParameterStore& store) {
  std::vector<Replica> replicas;
  const std::int64_t width = store.value_width();
  for (const Unit& unit : store.units())
    for (const Parameter& p : unit.parameters)
      if (unit.value)
        replicas.push_back({fmt::format("values of {} in {}", p.name, unit.name),
                            {unit.value.from(p.offset).data, static_cast<std::size_t>(p.size() * width)}});
  return replicas;
}

std::vector<Replica> shard_replicas(const ParameterStore& store, std::span<const Shard> shards) {
  std::vector<Replica> replicas;
  for (const Shard& s : shards)
    for (auto [what, data] :
         {std::pair{"values", s.value_bytes()}, {"optimizer state", std::as_writable_bytes(s.state)}})
      replicas.push_back({fmt::format("{} of {}[{}:{}] in {}", what, s.parameter->name, s.first, s.first + s.size,
                                      store.units()[s.unit].name),
                          data});
  return replicas;
}

}  // namespace dml
