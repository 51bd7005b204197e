#include "assembly/optimizer_state.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <vector>

#include "checkpoint/safetensors.h"
#include "core/error.h"

namespace dml {
namespace {

bool whole(const Shard& s) { return s.size == s.parameter->size(); }

TensorInfo tensor_of(const Shard& s, const StateTensor& t) {
  std::string name = fmt::format("{}/{}", t.name, s.parameter->name);
  if (!whole(s)) name += fmt::format("[{}:{}]", s.first, s.first + s.size);
  return {name, t.dtype,
          t.elements_per_entry == 0               ? t.shape
          : whole(s) && t.elements_per_entry == 1 ? s.parameter->shape
                                                  : std::vector{t.entries(s.size)}};
}

std::byte* entries_of(const Shard& s, const StateTensor& t) {
  return reinterpret_cast<std::byte*>(s.state.data()) + t.offset;
}

/// Entries [first, last) of an element range: of a tensor of the whole parameter, all of them.
struct Entries {
  std::int64_t from, to, count;
};
Entries entries_between(const StateTensor& t, std::int64_t stored_first, std::int64_t own_first, std::int64_t first,
                        std::int64_t last) {
  if (t.elements_per_entry == 0) return {0, 0, t.entries(0)};
  return {(first - stored_first) / t.elements_per_entry, (first - own_first) / t.elements_per_entry,
          t.entries(last - first)};
}

}  // namespace

std::string optimizer_state_file(bool sharded, int rank) {
  return sharded ? fmt::format("optimizer-{}.safetensors", rank) : "optimizer.safetensors";
}

std::vector<Shard> shards_with_state(DistributionStrategy& strategy) {
  std::vector<Shard> all;
  for (auto list : {strategy.shards(), strategy.whole_states()})
    for (const Shard& s : list)
      if (!s.state.empty()) all.push_back(s);
  return all;
}

void write_optimizer_state(const std::string& path, std::span<const Shard> shards, const StateLayout& layout,
                           const std::stop_token& stop) {
  std::vector<TensorInfo> infos;
  std::map<std::string, const std::byte*> data;
  for (const Shard& s : shards)
    for (const StateTensor& t : s.state.empty() ? std::vector<StateTensor>() : layout.tensors(*s.parameter, s.size)) {
      infos.push_back(tensor_of(s, t));
      data[infos.back().name] = entries_of(s, t);
    }
  SafetensorsWriter writer(path, std::move(infos));
  for (const TensorInfo& t : writer.tensors()) {
    if (stop.stop_requested()) return;
    writer.append(data.at(t.name), t.bytes());
  }
  writer.commit();
}

void read_optimizer_state(const std::string& checkpoint, DistributionStrategy& strategy, const StateLayout& layout) {
  // Each file holds planes of whole parameters or of slices; a shard takes whatever overlaps it.
  std::vector<SafetensorsFile> files;
  for (auto& entry : std::filesystem::directory_iterator(checkpoint))
    if (auto name = entry.path().filename().string(); name.starts_with("optimizer") && name.ends_with(".safetensors"))
      files.emplace_back(entry.path().string());
  struct Range {
    const TensorView* tensor;
    std::int64_t first, last;  // elements of the parameter; last −1: all of it
  };
  std::map<std::string, std::vector<Range>> pieces;
  for (const SafetensorsFile& file : files)
    for (const TensorView& t : file.tensors()) {
      std::string name(t.name);
      std::int64_t first = 0, last = -1;
      if (auto bracket = name.rfind('[');
          bracket != std::string::npos && std::sscanf(name.c_str() + bracket, "[%ld:%ld]", &first, &last) == 2)
        name.resize(bracket);
      pieces[name].push_back({&t, first, last});
    }
  for (const Shard& s : shards_with_state(strategy))
    for (const StateTensor& t : layout.tensors(*s.parameter, s.size)) {
      std::int64_t filled = 0;
      for (const Range& p : pieces[fmt::format("{}/{}", t.name, s.parameter->name)]) {
        std::int64_t end = p.last < 0 ? s.parameter->size() : p.last;
        if (p.first < 0 || end < p.first || (t.elements_per_entry > 0 && p.first % t.elements_per_entry != 0) ||
            t.entries(end - p.first) != p.tensor->size() || p.tensor->dtype != t.dtype)
          throw UserError(
              "{}: tensor '{}' does not have the shape of this optimizer's state; was it written by another optimizer, "
              "or an "
              "earlier version of dml?",
              checkpoint, p.tensor->name);
        std::int64_t first = std::max(p.first, s.first), last = std::min(end, s.first + s.size);
        if (first >= last) continue;
        const Entries e = entries_between(t, p.first, s.first, first, last);
        std::memcpy(entries_of(s, t) + e.to * t.width(), p.tensor->bytes.data() + e.from * t.width(),
                    static_cast<std::size_t>(e.count * t.width()));
        filled += last - first;
      }
      if (files.empty())
        throw UserError("{}: was saved without optimizer state (save_only_model: true), so no run can resume from it",
                        checkpoint);
      if (filled != s.size) throw UserError("{}: optimizer state of '{}' is missing", checkpoint, s.parameter->name);
    }
}

}  // namespace dml
