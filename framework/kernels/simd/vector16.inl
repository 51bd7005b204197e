// Vectors of 16-bit values and of their pairs.

typedef std::uint16_t VU16 __attribute__((vector_size(64)));
typedef std::uint16_t HalfVU16 __attribute__((vector_size(32)));
typedef std::uint32_t Words __attribute__((vector_size(64)));

// The first 16 halves and the last 16 by turns.
constexpr VU16 kPairs = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                         8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};

// 16 or 32 values in a row, as far as there are `some`.
template <class H>
DML_INLINE H load_16_bit(const bf16* p, std::int64_t some) {
  H x{};
  if (some >= static_cast<std::int64_t>(sizeof x / sizeof *p)) __builtin_memcpy(&x, p, sizeof x);
  else if (some > 0) __builtin_memcpy(&x, p, static_cast<std::size_t>(some) * sizeof *p);
  return x;
}

// 16 values in a row, as far as there are `count`; the rest is zero.
DML_INLINE V load_some(const float* p, std::int64_t count) {
  if (count >= W) return load(p);
  if (count <= 0) return V{};
  return reinterpret_cast<V>(_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), p));
}

// Rounded to nearest.
DML_INLINE VU16 rounded(V low, V high) {
  return reinterpret_cast<VU16>(_mm512_cvtne2ps_pbh(reinterpret_cast<__m512>(high), reinterpret_cast<__m512>(low)));
}

// 16 pairs of neighbors in a row, as far as there are `some` values.
DML_INLINE V pairs_of_row(const float* p, std::int64_t some) {
  return reinterpret_cast<V>(rounded(load_some(p, some), load_some(p + W, some - W)));
}
DML_INLINE V pairs_of_row(const bf16* p, std::int64_t some) { return reinterpret_cast<V>(load_16_bit<VU16>(p, some)); }

// The values of two rows in up to 16 columns (`some` of them exist), as pairs; without a second row, its values are
// zero.
DML_INLINE V pairs_of_columns(const float* p, const float* second, std::int64_t some) {
  const V high = second ? load_some(second, some) : V{};
  return reinterpret_cast<V>(__builtin_shuffle(rounded(load_some(p, some), high), kPairs));
}
DML_INLINE V pairs_of_columns(const bf16* p, const bf16* second, std::int64_t some) {
  const HalfVU16 low = load_16_bit<HalfVU16>(p, some), high = second ? load_16_bit<HalfVU16>(second, some) : HalfVU16{};
  const __m512i both = _mm512_maskz_inserti64x4(0xff, _mm512_castsi256_si512(reinterpret_cast<__m256i>(low)),
                                                reinterpret_cast<__m256i>(high), 1);
  return reinterpret_cast<V>(__builtin_shuffle(reinterpret_cast<VU16>(both), kPairs));
}
