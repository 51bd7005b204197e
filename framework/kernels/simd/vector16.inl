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
