#include "data/tensor_file.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/json.h"
#include "data/byte_stream.h"

namespace dml {
namespace {

constexpr std::size_t kHeader = 128;  // the length's 8 bytes and the JSON, filled up with spaces

std::string header(const std::string& name, const char* type, std::size_t width, std::size_t bytes) {
  std::string json =
      fmt::format(R"({{"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[0,{}]}}}})", name, type, bytes / width, bytes);
  DML_CHECK(json.size() + 8 <= kHeader);
  json.resize(kHeader - 8, ' ');
  std::string out(8, '\0');
  out[0] = static_cast<char>(kHeader - 8);
  return out + json;
}

}  // namespace

TensorWriterBase::TensorWriterBase(const std::string& path, std::string name, const char* type, std::size_t width)
    : file_(path), name_(std::move(name)), type_(type), width_(width) {
  const std::string head = header(name_, type, width, 0);
  buffer_.reserve(FileWriter::kPiece);
  buffer_.assign(head.begin(), head.end());
}

void TensorWriterBase::append_bytes(const void* data, std::size_t size) {
  auto* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const std::size_t n = std::min(size, FileWriter::kPiece - buffer_.size());
    buffer_.insert(buffer_.end(), bytes, bytes + n);
    if (buffer_.size() == FileWriter::kPiece) flush();
    bytes += n;
    size -= n;
  }
}

// Digest and file are updated for many examples at a time, while these are in the cache. The digest excludes the
// header.
void TensorWriterBase::flush() {
  const std::size_t skip = file_.position() == 0 ? kHeader : 0;
  hasher_.bytes(buffer_.data() + skip, buffer_.size() - skip);
  file_.write(buffer_.data(), buffer_.size());
  buffer_.clear();
}

WrittenFile TensorWriterBase::finish() {
  flush();
  WrittenFile written{name_ + ".safetensors", file_.position(), hasher_.digest()};
  std::string head = header(name_, type_.c_str(), width_, file_.position() - kHeader);
  file_.write_at(0, head.data(), head.size());
  file_.commit();
  return written;
}

bool has_digest(const std::string& path, const std::string& digest) { return stream_digest(path, kHeader) == digest; }

std::span<const std::byte> tensor_bytes(const MappedFile& file, const std::string& name, const char* type,
                                        std::size_t width) {
  auto bytes = file.bytes();
  std::size_t size = bytes.size() < kHeader ? 0 : bytes.size() - kHeader;
  std::string expected = header(name, type, width, size);
  if (bytes.size() < kHeader || size % width != 0 || std::memcmp(bytes.data(), expected.data(), kHeader) != 0)
    throw UserError("{}: is not the array '{}' of prepared data", file.path(), name);
  return bytes.subspan(kHeader);
}

}  // namespace dml
