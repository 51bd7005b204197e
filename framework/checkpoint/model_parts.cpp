#include "checkpoint/model_parts.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/error.h"

namespace dml {

ModelParts::ModelParts(std::string directory, std::vector<TensorInfo> tensors, std::size_t max_bytes)
    : directory_(std::move(directory)), names_(std::move(tensors), max_bytes) {
  for (std::size_t s = 0; s < names_.size(); ++s) {
    shards_.push_back({directory_ + "/" + names_.file_name(s), SafetensorsLayout(names_[s])});
    for (std::size_t t = 0; t < shards_[s].layout.tensors.size(); ++t)
      places_.emplace_back(shards_[s].layout.tensors[t].name, Place{s, t});
  }
  std::ranges::sort(places_, {}, [](auto& p) { return std::string_view(p.first); });
}

void ModelParts::create() {
  for (Shard& s : shards_) {
    s.file.reset(open(s.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!s.file) throw IoError(s.path, "cannot create");
    if (ftruncate(s.file.get(), static_cast<off_t>(s.layout.size)) != 0) throw IoError(s.path, "cannot write");
    write_at(s, 0, s.layout.front.data(), s.layout.front.size());
  }
  names_.write_index(directory_);
}

const ModelParts::Place* ModelParts::find(std::string_view tensor) const {
  auto it = std::ranges::lower_bound(places_, tensor, {}, [](auto& p) { return std::string_view(p.first); });
  return it != places_.end() && it->first == tensor ? &it->second : nullptr;
}

void ModelParts::write_floats(std::string_view tensor, std::int64_t first, std::span<const float> values) {
  const Place* place = find(tensor);
  DML_CHECK(place != nullptr, "tensor '{}' was not declared", tensor);
  Shard& shard = shards_[place->shard];
  const TensorInfo& info = shard.layout.tensors[place->tensor];
  DML_CHECK(first >= 0 && first + static_cast<std::int64_t>(values.size()) <= info.size(), "{}: more than it holds",
            tensor);
  const auto width = static_cast<std::size_t>(dtype_bytes(info.dtype, 1));
  const std::size_t at = shard.layout.offsets[place->tensor] + static_cast<std::size_t>(first) * width;
  if (info.dtype == DType::f32) return write_at(shard, at, values.data(), values.size_bytes());
  std::vector<std::uint16_t> piece(std::min<std::size_t>(values.size(), std::size_t{1} << 18));
  for (std::size_t i = 0; i < values.size(); i += piece.size()) {
    const std::size_t n = std::min(piece.size(), values.size() - i);
    dml::write_floats(info.dtype, values.data() + i, static_cast<std::int64_t>(n), piece.data());
    write_at(shard, at + i * width, piece.data(), n * width);
  }
}

void ModelParts::write_bf16(std::string_view tensor, std::int64_t first, std::span<const bf16> values) {
  std::vector<float> piece(std::min<std::size_t>(values.size(), std::size_t{1} << 20));
  for (std::size_t i = 0; i < values.size(); i += piece.size()) {
    const std::size_t n = std::min(piece.size(), values.size() - i);
    std::ranges::transform(values.subspan(i, n), piece.begin(), [](bf16 x) { return to_float(x); });
    write_floats(tensor, first + static_cast<std::int64_t>(i), std::span(piece).first(n));
  }
}

void ModelParts::write(std::string_view tensor, std::span<const std::byte> whole) {
  const Place* place = find(tensor);
  DML_CHECK(place != nullptr, "tensor '{}' was not declared", tensor);
  Shard& shard = shards_[place->shard];
  DML_CHECK(whole.size() == shard.layout.tensors[place->tensor].bytes(), "{}: {} bytes", tensor, whole.size());
  write_at(shard, shard.layout.offsets[place->tensor], whole.data(), whole.size());
}

void ModelParts::write_at(Shard& shard, std::size_t offset, const void* data, std::size_t size) {
  if (!shard.file) shard.file.reset(open(shard.path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!shard.file)
    throw IoError(shard.path, errno == ENOENT
                                  ? "not there, though another rank has created it; output_dir must be shared"
                                  : "cannot open");
  write_all_at(shard.file.get(), data, size, offset, shard.path);
}

void ModelParts::commit() {
  for (Shard& s : shards_) {
    if (!s.file) continue;
    const bool synced = fsync(s.file.get()) == 0;
    if (!s.file.close() || !synced) throw IoError(s.path, "cannot write to disk");
  }
}

}  // namespace dml
