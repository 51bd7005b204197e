// Decompression of blocks of known size (pages of Parquet, buffers of Arrow) by the libraries of their formats.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dml {

/// Values as in Parquet; lz4_frame is Arrow's.
enum class Codec { none, snappy, gzip, lzo, brotli, lz4_hadoop, zstd, lz4, lz4_frame };

/// Decompresses exactly `size` bytes into `out`. Returns "", or the error.
std::string unpack_block(Codec codec, std::string_view packed, std::size_t size, std::string& out);

/// CRC-32 of gzip and zlib.
std::uint32_t crc32_of(std::string_view bytes);

}  // namespace dml
