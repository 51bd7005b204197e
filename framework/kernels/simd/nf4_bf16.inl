// NF4 whose values are bf16, unpacked as such.

// The values that the 16 codes stand for under a scale, as bf16, twice.
DML_INLINE VU16 nf4_halves(float scale) {
  const auto values = reinterpret_cast<__m512>(load(kNf4Codes.data()) * scale);
  return reinterpret_cast<VU16>(_mm512_cvtne2ps_pbh(values, values));
}
// Of an index the last five bits are read, and the table has every value twice: what stands above four bits is ignored.
DML_INLINE VU16 look_up(VU16 table, VU16 code) {
  return reinterpret_cast<VU16>(
      _mm512_maskz_permutexvar_epi16(~0u, reinterpret_cast<__m512i>(code), reinterpret_cast<__m512i>(table)));
}

void bf16_from_nf4(const void* from, const float* scales, std::int64_t first, std::int64_t n, bf16* to) {
  auto* codes = static_cast<const std::uint8_t*>(from);
  std::int64_t i = first, end = first + n;
  // Up to where the block ends.
  auto some = [&] {
    const VU16 table = nf4_halves(scales[i / 64]);
    bf16 value[32];
    __builtin_memcpy(value, &table, sizeof value);
    for (std::int64_t last = i / 64 * 64 + 64 < end ? i / 64 * 64 + 64 : end; i < last; ++i)
      *to++ = value[i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4];
  };
  if (i < end && i % 64 != 0) some();
  // 16 bytes hold 32 codes: each byte is spread over two lanes and shifted to its nibble.
  const __m512i spread =
      _mm512_set_epi64(0x0f0f0f0f0e0e0e0e, 0x0d0d0d0d0c0c0c0c, 0x0b0b0b0b0a0a0a0a, 0x0909090908080808,
                       0x0707070706060606, 0x0505050504040404, 0x0303030302020202, 0x0101010100000000);
  const __m512i shift = _mm512_set1_epi32(4);
  for (; i + 64 <= end; i += 64) {
    const VU16 table = nf4_halves(scales[i / 64]);
    for (int part = 0; part < 2; ++part, to += 32) {
      __m512i bytes = _mm512_maskz_broadcast_i32x4(
          0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i / 2 + 16 * part)));
      __m512i code = _mm512_maskz_srlv_epi16(~0u, _mm512_shuffle_epi8(bytes, spread), shift);
      _mm512_storeu_si512(to, reinterpret_cast<__m512i>(look_up(table, reinterpret_cast<VU16>(code))));
    }
  }
  while (i < end) some();
}
