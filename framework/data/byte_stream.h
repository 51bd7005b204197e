// Sequential reader of a file, decompressed if it is gzip, zstd, xz, bzip2 or lz4 (detected by its first bytes).
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

/// Opens a file. UserError when it is missing or not a regular file. /dev/stdin may be a pipe; it is not decompressed.
std::unique_ptr<ByteStream> open_stream(const std::string& path);

/// Digest of a file's stored bytes (compressed or not) from byte `begin` on, without mapping it.
std::string stream_digest(const std::string& path, std::size_t begin = 0);

}  // namespace dml
