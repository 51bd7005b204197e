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

ModelParts::~ModelParts() {
  for (Shard& s : shards_)
    if (s.fd >= 0) close(s.fd);
}

void ModelParts::create() {
  for (Shard& s : shards_) {
    s.fd = open(s.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (s.fd < 0) throw IoError(s.path, "cannot create");
    if (ftruncate(s.fd, static_cast<off_t>(s.layout.size)) != 0) throw IoError(s.path, "cannot write");
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
  if (shard.fd < 0) shard.fd = open(shard.path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  if (shard.fd < 0)
    throw IoError(shard.path, errno == ENOENT
                                  ? "not there, though another rank has created it; output_dir must be shared"
                                  : "cannot open");
  const auto* p = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = pwrite(shard.fd, p, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw IoError(shard.path, "cannot write");
    p += n, offset += static_cast<std::size_t>(n), size -= static_cast<std::size_t>(n);
  }
}

void ModelParts::commit() {
  for (Shard& s : shards_) {
    if (s.fd < 0) continue;
    const int fd = std::exchange(s.fd, -1);
    const bool synced = fsync(fd) == 0;
    if (close(fd) != 0 || !synced) throw IoError(s.path, "cannot write to disk");
  }
}

}  // namespace dml
