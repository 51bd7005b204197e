#include "pipeline/optimizer_state.h"

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

using Part = StateLayout::Part;

bool whole(const Shard& s) { return s.size == s.parameter->size(); }

TensorInfo tensor_of(const Shard& s, const Part& part) {
  std::string name = fmt::format("{}/{}", part.name, s.parameter->name);
  if (!whole(s)) name += fmt::format("[{}:{}]", s.first, s.first + s.size);
  bool own_shape = whole(s) && part.each == 1;
  return {name, part.bytes ? Dtype::u8 : Dtype::f32,
          own_shape ? s.parameter->shape : std::vector{part.entries(s.size)}};
}

std::byte* entries_of(const Shard& s, const Part& part) {
  return reinterpret_cast<std::byte*>(s.state.data()) + part.offset;
}

}  // namespace

std::string optimizer_state_file(bool sharded, int rank) {
  return sharded ? fmt::format("optimizer-{}.safetensors", rank) : "optimizer.safetensors";
}

void write_optimizer_state(const std::string& path, std::span<const Shard> shards, const StateLayout& layout,
                           const std::stop_token& stop) {
  std::vector<TensorInfo> infos;
  std::map<std::string, const std::byte*> data;
  for (const Shard& s : shards)
    for (const Part& part : layout.parts(s.parameter->size(), s.size)) {
      infos.push_back(tensor_of(s, part));
      data[infos.back().name] = entries_of(s, part);
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
  struct Stretch {
    const TensorView* tensor;
    std::int64_t first, last;  // elements of the parameter; last −1: all of it
  };
  std::map<std::string, std::vector<Stretch>> pieces;
  for (const SafetensorsFile& file : files)
    for (const TensorView& t : file.tensors()) {
      std::string name(t.name);
      std::int64_t first = 0, last = -1;
      if (auto bracket = name.rfind('[');
          bracket != std::string::npos && std::sscanf(name.c_str() + bracket, "[%ld:%ld]", &first, &last) == 2)
        name.resize(bracket);
      pieces[name].push_back({&t, first, last});
    }
  for (Shard& s : strategy.shards())
    for (const Part& part : layout.parts(s.parameter->size(), s.size)) {
      std::int64_t filled = 0;
      for (const Stretch& p : pieces[fmt::format("{}/{}", part.name, s.parameter->name)]) {
        std::int64_t end = p.last < 0 ? s.parameter->size() : p.last;
        if (p.first < 0 || end < p.first || p.first % part.each != 0 ||
            part.entries(end - p.first) != p.tensor->size() || p.tensor->dtype != (part.bytes ? Dtype::u8 : Dtype::f32))
          throw UserError("{}: tensor '{}' is not the state that this optimizer keeps (another optimizer wrote it?)",
                          checkpoint, p.tensor->name);
        std::int64_t first = std::max(p.first, s.first), last = std::min(end, s.first + s.size);
        if (first >= last) continue;
        std::int64_t from = (first - p.first) / part.each, to = (first - s.first) / part.each,
                     count = part.entries(last - first);
        std::memcpy(entries_of(s, part) + to * part.width(), p.tensor->bytes.data() + from * part.width(),
                    static_cast<std::size_t>(count * part.width()));
        filled += last - first;
      }
      if (filled != s.size) throw UserError("{}: optimizer state of '{}' is missing", checkpoint, s.parameter->name);
    }
}

}  // namespace dml
