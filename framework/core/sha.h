// SHA-256 and SHA-1 (FIPS 180-4), computed incrementally. Used where other programs identify contents by them:
// pre-tokenizers of llama.cpp, files of a Hugging Face repository. dml's own digests are in core/hash.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dml {

/// `Words` of state: 8 for SHA-256, 5 for SHA-1.
template <int Words>
class Sha {
 public:
  Sha();
  Sha& update(const void* data, std::size_t size);
  Sha& update(std::string_view text) { return update(text.data(), text.size()); }
  /// The digest in lower-case hex digits. The object must not be used afterwards.
  std::string hex();

 private:
  void block(const unsigned char* bytes);

  std::array<std::uint32_t, Words> state_;
  std::array<unsigned char, 64> pending_{};
  std::uint64_t size_ = 0;
};

using Sha256 = Sha<8>;
using Sha1 = Sha<5>;

}  // namespace dml
