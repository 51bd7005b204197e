// Content digests: XXH3-128 as 32 hex digits. They detect damage and identify contents; they are not cryptographic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace dml {

class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  Hasher& bytes(const void* data, std::size_t size);
  /// Hashes the length first, so that ("ab", "c") and ("a", "bc") differ.
  Hasher& text(std::string_view s);
  Hasher& number(std::uint64_t n);
  std::string digest() const;
  std::uint64_t digest64() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string digest_of(std::string_view bytes);
/// XXH3-64 of one block of bytes, for hash tables in memory.
std::uint64_t hash64(const void* data, std::size_t size, std::uint64_t seed = 0);
/// Digest of a file's contents, read through a mapping.
std::string digest_of_file(const std::string& path);

}  // namespace dml
