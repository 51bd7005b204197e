#include "data/codecs.h"

#include <brotli/decode.h>
#include <libdeflate.h>
#include <lz4.h>
#include <lz4frame.h>
#include <snappy-c.h>
#include <zstd.h>

#include <cstring>
#include <memory>

#include <fmt/format.h>

namespace dml {
namespace {

constexpr const char* kDamaged = "the packed data are damaged";
constexpr const char* kTooShort = "the packed data end early";

const char* unsnappy(std::string_view in, std::string& out) {
  std::size_t size = 0;
  if (snappy_uncompressed_length(in.data(), in.size(), &size) != SNAPPY_OK) return kTooShort;
  if (size != out.size()) return "the packed data have another size than the page says";
  return snappy_uncompress(in.data(), in.size(), out.data(), &size) == SNAPPY_OK ? nullptr : kDamaged;
}

const char* unlz4(std::string_view in, char* out, std::size_t size) {
  const int n = LZ4_decompress_safe(in.data(), out, static_cast<int>(in.size()), static_cast<int>(size));
  return n < 0 ? kDamaged : static_cast<std::size_t>(n) == size ? nullptr : kTooShort;
}

// Hadoop's framing of LZ4: before each block its uncompressed and compressed sizes, big-endian. Some writers omit it.
const char* unlz4_hadoop(std::string_view in, std::string& out) {
  auto number = [&](std::size_t at) {
    std::uint32_t x = 0;
    std::memcpy(&x, in.data() + at, 4);
    return std::size_t{__builtin_bswap32(x)};
  };
  const std::string_view whole = in;
  std::size_t done = 0;
  while (in.size() >= 8 && number(0) <= out.size() - done && number(4) <= in.size() - 8) {
    const std::size_t size = number(0), packed = number(4);
    if (unlz4(in.substr(8, packed), out.data() + done, size)) break;
    done += size;
    in.remove_prefix(8 + packed);
  }
  return done == out.size() && in.empty() ? nullptr : unlz4(whole, out.data(), out.size());
}

const char* unlz4_frame(std::string_view in, std::string& out) {
  LZ4F_dctx* made = nullptr;
  if (LZ4F_isError(LZ4F_createDecompressionContext(&made, LZ4F_VERSION))) return "lz4: out of memory";
  const std::unique_ptr<LZ4F_dctx, decltype(&LZ4F_freeDecompressionContext)> context(made,
                                                                                     LZ4F_freeDecompressionContext);
  std::size_t done = 0;
  while (!in.empty()) {
    std::size_t room = out.size() - done, taken = in.size();
    const std::size_t hint = LZ4F_decompress(made, out.data() + done, &room, in.data(), &taken, nullptr);
    if (LZ4F_isError(hint) || (room == 0 && taken == 0)) return kDamaged;
    done += room;
    in.remove_prefix(taken);
    if (hint == 0) break;
  }
  return done == out.size() ? nullptr : kTooShort;
}

// Inflates gzip (one or several members) or zlib data.
const char* inflate(std::string_view in, std::string& out) {
  thread_local const std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)> context(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  if (!context) return "libdeflate: out of memory";
  constexpr char kGzip = '\x1f';
  std::size_t done = 0;
  do {
    const auto unpack_member = in.starts_with(kGzip) ? libdeflate_gzip_decompress_ex : libdeflate_zlib_decompress_ex;
    std::size_t taken = 0, made = 0;
    if (unpack_member(context.get(), in.data(), in.size(), out.data() + done, out.size() - done, &taken, &made) !=
        LIBDEFLATE_SUCCESS)
      return kDamaged;
    done += made;
    in.remove_prefix(taken);
  } while (!in.empty());
  return done == out.size() ? nullptr : kTooShort;
}

const char* unbrotli(std::string_view in, std::string& out) {
  std::size_t size = out.size();
  const auto result = BrotliDecoderDecompress(in.size(), reinterpret_cast<const std::uint8_t*>(in.data()), &size,
                                              reinterpret_cast<std::uint8_t*>(out.data()));
  if (result != BROTLI_DECODER_RESULT_SUCCESS) return kDamaged;
  return size == out.size() ? nullptr : kTooShort;
}

const char* unzstd(std::string_view in, std::string& out) {
  thread_local const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (!context) return "zstd: out of memory";
  const std::size_t n = ZSTD_decompressDCtx(context.get(), out.data(), out.size(), in.data(), in.size());
  if (ZSTD_isError(n)) return kDamaged;
  return n == out.size() ? nullptr : kTooShort;
}

const char* unpack(Codec codec, std::string_view packed, std::string& out) {
  switch (codec) {
    case Codec::snappy:
      return unsnappy(packed, out);
    case Codec::gzip:
      return inflate(packed, out);
    case Codec::brotli:
      return unbrotli(packed, out);
    case Codec::lz4_hadoop:
      return unlz4_hadoop(packed, out);
    case Codec::zstd:
      return unzstd(packed, out);
    case Codec::lz4:
      return unlz4(packed, out.data(), out.size());
    case Codec::lz4_frame:
      return unlz4_frame(packed, out);
    default:
      return "it is packed by a codec that dml does not have; it reads SNAPPY, GZIP, BROTLI, LZ4 and ZSTD";
  }
}

}  // namespace

std::uint32_t crc32_of(std::string_view bytes) { return libdeflate_crc32(0, bytes.data(), bytes.size()); }

std::string unpack_block(Codec codec, std::string_view packed, std::size_t size, std::string& out) {
  if (codec == Codec::none) {
    if (packed.size() != size) return "its two sizes differ";
    out = packed;
    return {};
  }
  // The largest expansion factor of these formats; a declared size beyond it is refused before memory is allocated.
  constexpr std::size_t kDensest = 1 << 17;
  if (size / kDensest > packed.size()) return "its two sizes cannot both be true";
  out.resize(size);
  const char* problem = unpack(codec, packed, out);
  return problem ? problem : "";
}

}  // namespace dml
