#include "pipeline/optimizer_state.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <vector>

#include "checkpoint/safetensors.h"
#include "core/error.h"

namespace dml {
namespace {

std::string plane_name(const Shard& s, int plane) {
  std::string name = fmt::format("state{}/{}", plane, s.parameter->name);
  return s.size == s.parameter->size() ? name : fmt::format("{}[{}:{}]", name, s.first, s.first + s.size);
}

}  // namespace

void write_optimizer_state(const std::string& folder, DistributionStrategy& strategy, int planes, const Comm& comm) {
  bool sharded = strategy.total(1) > 1.5;
  if (comm.rank() != 0 && !sharded) return;
  std::vector<TensorInfo> infos;
  std::map<std::string, std::span<const float>> values;
  for (const Shard& s : strategy.shards())
    for (int plane = 0; plane < planes; ++plane) {
      infos.push_back({plane_name(s, plane), Dtype::f32, s.size == s.parameter->size() ? s.parameter->shape : std::vector{s.size}});
      values[infos.back().name] = s.state.subspan(static_cast<std::size_t>(plane * s.size), static_cast<std::size_t>(s.size));
    }
  std::string name = sharded ? fmt::format("optimizer-{}.safetensors", comm.rank()) : "optimizer.safetensors";
  write_safetensors(folder + "/" + name, std::move(infos), [&](const TensorInfo& t) { return values.at(t.name); });
}

void read_optimizer_state(const std::string& checkpoint, DistributionStrategy& strategy, int planes) {
  // Each file holds planes of whole parameters or of slices; a shard takes whatever overlaps it.
  std::vector<SafetensorsFile> files;
  for (auto& entry : std::filesystem::directory_iterator(checkpoint))
    if (auto name = entry.path().filename().string(); name.starts_with("optimizer") && name.ends_with(".safetensors")) files.emplace_back(entry.path().string());
  struct Stretch {
    const TensorView* tensor;
    std::int64_t first, last;
  };
  std::map<std::string, std::vector<Stretch>> pieces;
  for (const SafetensorsFile& file : files)
    for (const TensorView& t : file.tensors()) {
      std::string name(t.name);
      std::int64_t first = 0, last = t.size();
      if (auto bracket = name.rfind('['); bracket != std::string::npos && std::sscanf(name.c_str() + bracket, "[%ld:%ld]", &first, &last) == 2) name.resize(bracket);
      if (last - first != t.size()) throw UserError("{}: tensor '{}' has {} elements", checkpoint, t.name, t.size());
      pieces[name].push_back({&t, first, last});
    }
  for (Shard& s : strategy.shards())
    for (int plane = 0; plane < planes; ++plane) {
      float* to = s.state.data() + plane * s.size;
      std::int64_t filled = 0;
      for (const Stretch& p : pieces[fmt::format("state{}/{}", plane, s.parameter->name)]) {
        std::int64_t first = std::max(p.first, s.first), last = std::min(p.last, s.first + s.size);
        if (first >= last) continue;
        read_floats(p.tensor->dtype, p.tensor->bytes.data() + (first - p.first) * dtype_bits(p.tensor->dtype) / 8, last - first, to + (first - s.first));
        filled += last - first;
      }
      if (filled != s.size) throw UserError("{}: optimizer state of '{}' is missing", checkpoint, s.parameter->name);
    }
}

}  // namespace dml
