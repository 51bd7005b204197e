// Bytes of a file from front to back, unpacked on the way when it is gzip or zstd (recognised by its first bytes).
// "ARCHIVE::MEMBER" is a file in an archive.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace dml {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// Fills `buffer` with up to `size` bytes; 0 at the end. UserError when the file cannot be read, is damaged or
  /// changed since it was opened.
  virtual std::size_t read(char* buffer, std::size_t size) = 0;
};

/// UserError where the file is missing or not regular. /dev/stdin may be a pipe; it is read as it is, without
/// decompression.
std::unique_ptr<ByteStream> open_stream(const std::string& path);

/// Digest of a file's content as stored (compressed or not) from byte `begin` on, without mapping it.
std::string stream_digest(const std::string& path, std::size_t begin = 0);

}  // namespace dml
