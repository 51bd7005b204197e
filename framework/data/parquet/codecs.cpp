#include "data/parquet/codecs.h"

#include <zlib.h>
#include <zstd.h>

#include <cstring>

#include <fmt/format.h>

namespace dml::parquet {
namespace {

constexpr const char* kTooShort = "the packed data end early";
constexpr const char* kOutside = "the packed data refer to bytes outside";

// Appends `count` bytes from `distance` back; they may overlap.
bool copy_back(std::string& out, std::size_t distance, std::size_t count, std::size_t limit) {
  if (distance == 0 || distance > out.size() || count > limit - out.size()) return false;
  const std::size_t from = out.size() - distance;
  if (distance >= count) {
    out.append(out, from, count);
    return true;
  }
  for (std::size_t i = 0; i < count; ++i) out.push_back(out[from + i]);
  return true;
}

std::size_t little(std::string_view in, std::size_t at, std::size_t bytes) {
  std::size_t x = 0;
  for (std::size_t i = 0; i < bytes; ++i) x |= std::size_t{static_cast<unsigned char>(in[at + i])} << (8 * i);
  return x;
}

const char* snappy(std::string_view in, std::size_t size, std::string& out) {
  std::size_t at = 0, declared = 0;
  for (int shift = 0;; shift += 7) {
    if (at >= in.size() || shift > 28) return kTooShort;
    const auto b = static_cast<unsigned char>(in[at++]);
    declared |= std::size_t{b & 127u} << shift;
    if (b < 128) break;
  }
  if (declared != size) return "the packed data have another size than the page says";
  while (at < in.size()) {
    const auto tag = static_cast<unsigned char>(in[at++]);
    std::size_t count = tag >> 2;
    if ((tag & 3) == 0) {
      if (count >= 60) {
        const std::size_t more = count - 59;
        if (in.size() - at < more) return kTooShort;
        count = little(in, at, more);
        at += more;
      }
      ++count;
      if (count > in.size() - at || count > size - out.size()) return kTooShort;
      out.append(in.substr(at, count));
      at += count;
      continue;
    }
    const std::size_t width = (tag & 3) == 1 ? 1 : (tag & 3) == 2 ? 2 : 4;
    if (in.size() - at < width) return kTooShort;
    std::size_t distance = little(in, at, width);
    at += width;
    if (width == 1) distance |= std::size_t{tag & 0xe0u} << 3, count = 4 + (count & 7);
    else ++count;
    if (!copy_back(out, distance, count, size)) return kOutside;
  }
  return nullptr;
}

const char* lz4(std::string_view in, std::size_t size, std::string& out) {
  std::size_t at = 0;
  auto length = [&](std::size_t nibble) {
    std::size_t n = nibble;
    if (nibble < 15) return n;
    for (unsigned char b = 255; b == 255 && at < in.size();) n += b = static_cast<unsigned char>(in[at++]);
    return n;
  };
  while (at < in.size()) {
    const auto token = static_cast<unsigned char>(in[at++]);
    const std::size_t literals = length(token >> 4);
    if (literals > in.size() - at || literals > size - out.size()) return kTooShort;
    out.append(in.substr(at, literals));
    at += literals;
    if (at == in.size()) return nullptr;  // the last sequence has no match
    if (in.size() - at < 2) return kTooShort;
    const std::size_t distance = little(in, at, 2);
    at += 2;
    if (!copy_back(out, distance, length(token & 15) + 4, size)) return kOutside;
  }
  return nullptr;
}

const char* gzip(std::string_view in, std::size_t size, std::string& out) {
  out.resize(size);
  z_stream z = {};
  if (inflateInit2(&z, 15 + 32) != Z_OK) return "zlib: out of memory";
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
  z.avail_in = static_cast<uInt>(in.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(size);
  const char* problem = nullptr;
  while (true) {
    const int result = inflate(&z, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      if (z.avail_in == 0) break;
      inflateReset(&z);  // several members
    } else if (result != Z_OK || (z.avail_in == 0 && z.avail_out == 0)) {
      problem = "the gzip data are damaged";
      break;
    }
  }
  if (!problem && z.avail_out != 0) problem = kTooShort;
  inflateEnd(&z);
  return problem;
}

const char* zstd(std::string_view in, std::size_t size, std::string& out) {
  out.resize(size);
  const std::size_t n = ZSTD_decompress(out.data(), size, in.data(), in.size());
  if (ZSTD_isError(n)) return "the zstd data are damaged";
  return n == size ? nullptr : kTooShort;
}

}  // namespace

const char* codec_name(std::int64_t codec) {
  constexpr const char* kNames[] = {"UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW"};
  return codec >= 0 && codec < 8 ? kNames[codec] : "an unknown codec";
}

std::uint32_t crc(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

std::string unpack_block(std::int64_t codec, std::string_view packed, std::size_t size, std::string& out) {
  out.clear();
  const char* problem = nullptr;
  switch (codec) {
    case 0:
      if (packed.size() != size) return "its two sizes differ";
      out = packed;
      return {};
    case 1:
      out.reserve(size);
      problem = snappy(packed, size, out);
      break;
    case 2:
      problem = gzip(packed, size, out);
      break;
    case 6:
      problem = zstd(packed, size, out);
      break;
    case 7:
      out.reserve(size);
      problem = lz4(packed, size, out);
      break;
    default:
      return fmt::format("it is packed by {}; dml reads SNAPPY, GZIP, ZSTD and LZ4_RAW", codec_name(codec));
  }
  if (!problem && out.size() != size) problem = kTooShort;
  return problem ? problem : "";
}

}  // namespace dml::parquet
