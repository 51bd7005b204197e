// Blocks of known size, unpacked by the libraries of their formats: what Parquet's pages and Arrow's buffers are packed
// with.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dml {

/// In the order of Parquet's numbers; lz4_frame is Arrow's.
enum class Codec { none, snappy, gzip, lzo, brotli, lz4_hadoop, zstd, lz4, lz4_frame };

/// Exactly `size` bytes into `out`; "" or what is wrong.
std::string unpack_block(Codec codec, std::string_view packed, std::size_t size, std::string& out);

/// CRC-32 as gzip and zlib have it.
std::uint32_t crc32_of(std::string_view bytes);

}  // namespace dml
