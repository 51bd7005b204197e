// Quantized weights of four and six bits as vectors of float32, for AVX2: shuffles look up and move bytes, 32 at a
// time. Every value has the bits that unpacking gives it.

DML_INLINE __m256i load_bytes(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
DML_INLINE __m256i low_bits(__m256i x, int mask) {
  return _mm256_and_si256(x, _mm256_set1_epi8(static_cast<char>(mask)));
}
// Bytes [p, p + 16) in both halves.
DML_INLINE __m256i sixteen_bytes(const void* p) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}

// One code in each byte, from 16 bytes (in both halves) of two codes each: the lower half has the codes of the even
// columns, the upper half those of the odd columns. HighFirst: the high nibble is the even column.
template <bool HighFirst>
DML_INLINE __m256i even_and_odd_codes(__m256i bytes) {
  constexpr int kEven = HighFirst ? 4 : 0, kOdd = 4 - kEven;
  const __m256i shift = _mm256_set_epi32(kOdd, kOdd, kOdd, kOdd, kEven, kEven, kEven, kEven);
  return _mm256_and_si256(_mm256_srlv_epi32(bytes, shift), _mm256_set1_epi8(15));
}
// Eight columns in the order that join_bytes gives values of these codes: even columns first. And back.
DML_INLINE V even_lanes_first(V x) { return __builtin_shuffle(x, VI{0, 2, 4, 6, 1, 3, 5, 7}); }
DML_INLINE V in_order_of_columns(V x) { return __builtin_shuffle(x, VI{0, 4, 1, 5, 2, 6, 3, 7}); }

// to[i] = the values of codes [4i, 4i + 4) of each half. a has the lowest byte of every value, d the highest.
DML_INLINE void join_bytes(__m256i a, __m256i b, __m256i c, __m256i d, V (&to)[4]) {
  const __m256i low[2] = {_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)};
  const __m256i high[2] = {_mm256_unpacklo_epi8(c, d), _mm256_unpackhi_epi8(c, d)};
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    to[2 * i] = reinterpret_cast<V>(_mm256_unpacklo_epi16(low[i], high[i]));
    to[2 * i + 1] = reinterpret_cast<V>(_mm256_unpackhi_epi16(low[i], high[i]));
  }
}

// The values of 16 codes as four tables of their bytes, for join_bytes.
struct ByteTables {
  alignas(16) std::uint8_t byte[4][16] = {};
  constexpr explicit ByteTables(const float* values) {
    for (int i = 0; i < 16; ++i)
      for (int b = 0; b < 4; ++b)
        byte[b][i] = static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(values[i]) >> (8 * b));
  }
  DML_INLINE __m256i look_up(int b, __m256i codes) const { return _mm256_shuffle_epi8(sixteen_bytes(byte[b]), codes); }
};

// Bytes [Lower, Lower + 4) of the lower and [Upper, Upper + 4) of the upper half as signed integers, times 2²⁴:
// each is moved to the highest byte of its lane. On Zen 3 this takes less than half the time of vpmovsxbd from a
// register.
template <int Lower, int Upper>
DML_INLINE V signed_bytes_of(__m256i bytes) {
  constexpr int kZeros = 0x808080, kNext = 1 << 24, kLower = Lower * kNext + kZeros, kUpper = Upper * kNext + kZeros;
  const __m256i order = _mm256_setr_epi32(kLower, kLower + kNext, kLower + 2 * kNext, kLower + 3 * kNext,  //
                                          kUpper, kUpper + kNext, kUpper + 2 * kNext, kUpper + 3 * kNext);
  return __builtin_convertvector(reinterpret_cast<VI>(_mm256_shuffle_epi8(bytes, order)), V);
}
constexpr float kSignedByteScale = 0x1p-24f;  // of what signed_bytes_of gives
// to = 32 bytes in their order.
DML_INLINE void signed_bytes_in_order(__m256i bytes, V (&to)[4]) {
  bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
  to[0] = signed_bytes_of<0, 0>(bytes), to[1] = signed_bytes_of<4, 4>(bytes);
  to[2] = signed_bytes_of<8, 8>(bytes), to[3] = signed_bytes_of<12, 12>(bytes);
}

// 16 in every byte whose bit is set, of the 32 bits at p.
DML_INLINE __m256i fifth_bits(const unsigned char* p) {
  std::int32_t bits;
  __builtin_memcpy(&bits, p, sizeof bits);
  const __m256i byte = _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
  const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
  const __m256i own = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(bits), byte), bit);
  return low_bits(_mm256_cmpeq_epi8(own, bit), 16);
}
