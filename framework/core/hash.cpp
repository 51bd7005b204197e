#include "core/hash.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

#include "core/files.h"

namespace dml {

struct Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

Hasher& Hasher::bytes(const void* data, std::size_t size) {
  XXH3_128bits_update(&state_->xxh, data, size);
  return *this;
}

Hasher& Hasher::number(std::uint64_t n) {
  unsigned char le[8];
  for (int i = 0; i < 8; ++i) le[i] = static_cast<unsigned char>(n >> (8 * i));
  return bytes(le, sizeof le);
}

Hasher& Hasher::text(std::string_view s) { return number(s.size()).bytes(s.data(), s.size()); }

std::string Hasher::digest() const {
  auto h = XXH3_128bits_digest(&state_->xxh);
  return fmt::format("{:016x}{:016x}", h.high64, h.low64);
}

std::uint64_t Hasher::digest64() const { return XXH3_128bits_digest(&state_->xxh).low64; }

std::string digest_of(std::string_view bytes) { return Hasher().bytes(bytes.data(), bytes.size()).digest(); }

std::uint64_t hash64(const void* data, std::size_t size, std::uint64_t seed) {
  return XXH3_64bits_withSeed(data, size, seed);
}

std::string digest_of_file(const std::string& path) {
  constexpr std::size_t kPiece = std::size_t{16} << 20;  // files larger than memory are never in memory as a whole
  MappedFile file(path);
  Hasher hasher;
  for (auto rest = file.bytes(); !rest.empty();) {
    auto piece = rest.first(std::min(kPiece, rest.size()));
    hasher.bytes(piece.data(), piece.size());
    release_pages(piece);
    rest = rest.subspan(piece.size());
  }
  return hasher.digest();
}

}  // namespace dml
