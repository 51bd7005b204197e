// Blocks of known size, unpacked: Snappy and LZ4 (own decoders), gzip and zstd (zlib, libzstd).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dml::parquet {

/// Exactly `size` bytes into `out`; "" or what is wrong. Codec numbers are Parquet's.
std::string unpack_block(std::int64_t codec, std::string_view packed, std::size_t size, std::string& out);
/// "SNAPPY"; the numbers that unpack_block() knows, and those it refuses.
const char* codec_name(std::int64_t codec);
/// CRC-32 of zlib.
std::uint32_t crc(std::string_view bytes);

}  // namespace dml::parquet
