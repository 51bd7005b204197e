// Conversion of stored dtypes to float32.

// Mapped files may be unaligned.
typedef std::uint16_t VU16 __attribute__((vector_size(DML_VECTOR_BYTES / 2)));
DML_INLINE VU load_16_bit(const unsigned char* from) {
#if DML_VECTOR_BYTES == 64
  return reinterpret_cast<VU>(
      _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
#elif DML_VECTOR_BYTES == 32
  return reinterpret_cast<VU>(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#else
  VU16 h;
  __builtin_memcpy(&h, from, sizeof h);
  return __builtin_convertvector(h, VU);
#endif
}
DML_INLINE VU load_16_bit(const unsigned char* from, std::int64_t count) {
  VU16 h{};
  __builtin_memcpy(&h, from, static_cast<std::size_t>(count) * 2);
  return __builtin_convertvector(h, VU);
}

template <class F>
DML_INLINE void convert_halves(const void* from, std::int64_t n, float* to, F convert) {
  auto* s = static_cast<const unsigned char*>(from);
  std::int64_t i = 0;
  for (; i + W <= n; i += W) store(to + i, convert(load_16_bit(s + 2 * i)));
  if (i < n) store_part(to + i, convert(load_16_bit(s + 2 * i, n - i)), n - i);
}

void from_bf16(const void* from, std::int64_t n, float* to) {
  convert_halves(
      from, n, to, [](VU h) __attribute__((always_inline)) { return reinterpret_cast<V>(h << 16); });
}

void to_bf16(const float* from, std::int64_t n, void* to) {
  auto* d = static_cast<unsigned char*>(to);
  auto rounded = [](V x) __attribute__((always_inline)) {
    VU u = reinterpret_cast<VU>(x);
    VU nearest = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, quiet = (u >> 16) | 0x40u;
    return __builtin_convertvector((u & 0x7fffffffu) > 0x7f800000u ? quiet : nearest, VU16);
  };
  std::int64_t i = 0;
  for (; i + W <= n; i += W) {
    VU16 h = rounded(load(from + i));
    __builtin_memcpy(d + 2 * i, &h, sizeof h);
  }
  if (i < n) {
    VU16 h = rounded(load_part(from + i, n - i));
    __builtin_memcpy(d + 2 * i, &h, static_cast<std::size_t>(n - i) * 2);
  }
}

void from_f16(const void* from, std::int64_t n, float* to) {
#if DML_VECTOR_BYTES == 64
  auto* s = static_cast<const unsigned char*>(from);
  for (; n >= 16; n -= 16, s += 32, to += 16)
    _mm512_storeu_ps(to, _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(s))));
  from = s;
#elif DML_VECTOR_BYTES == 32
  auto* s = static_cast<const unsigned char*>(from);
  for (; n >= 8; n -= 8, s += 16, to += 8)
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(s))));
  from = s;
#endif
  // The bits of a half, shifted into those of a float, have an exponent too small by 112; a multiplication corrects
  // normal and subnormal numbers, infinities and NaN are handled separately.
  convert_halves(
      from, n, to, [](VU h) __attribute__((always_inline)) {
        VU bits = (h & 0x7fffu) << 13, sign = (h & 0x8000u) << 16;
        VU mended = reinterpret_cast<VU>(reinterpret_cast<V>(bits) * 0x1p112f);
        mended = bits >= 0x0f800000u ? bits | 0x70000000u : mended;
        return reinterpret_cast<V>(mended | sign);
      });
}

void from_int8(const void* from, std::int64_t n, float scale, float* to) {
  auto* s = static_cast<const std::int8_t*>(from);
  for (std::int64_t i = 0; i < n; ++i) to[i] = scale * static_cast<float>(s[i]);
}

// Rounds finite values to the nearest bf16, ties to even.
DML_INLINE V nearest_bf16(V x) {
  VU u = reinterpret_cast<VU>(x);
#if DML_VECTOR_BYTES == 64
  // VU16 of 32 bits are added up: the last bit that stays, and 0x7fff.
  const auto halves = reinterpret_cast<__m512i>((u & 0x10000u) | 0x7fffu);
  const VU half = reinterpret_cast<VU>(_mm512_madd_epi16(halves, _mm512_set1_epi16(1)));
#else
  const VU half = ((u >> 16) & 1u) + 0x7fffu;
#endif
  return reinterpret_cast<V>((u + half) & 0xffff0000u);
}

// The values of the 16 codes times a scale.
struct Nf4Table {
  V part[16 / W];
};
DML_INLINE Nf4Table nf4_table(float scale, bool rounded) {
  Nf4Table table;
#pragma GCC unroll 4
  for (int t = 0; t < 16 / W; ++t) {
    table.part[t] = load(kNf4Codes.data() + t * W) * scale;
    if (rounded) table.part[t] = nearest_bf16(table.part[t]);
  }
  return table;
}

#if DML_VECTOR_BYTES == 32
// The values of a block of NF4, looked up in tables of bytes. Rounded: to bf16.
template <bool Rounded>
struct Nf4Values {
  float scale;
  __m256i low, high;  // Rounded: the upper two bytes of the 16 values, in both halves

  Nf4Values() = default;
  DML_INLINE explicit Nf4Values(float s) : scale(s) {
    if constexpr (Rounded) {
      // Codes first to first + 3 and first + 8 to first + 11.
      auto values = [s](int first) __attribute__((always_inline)) {
        const float* from = kNf4Codes.data() + first;
        const V codes = reinterpret_cast<V>(_mm256_setr_m128(_mm_load_ps(from), _mm_load_ps(from + 8)));
        return reinterpret_cast<__m256i>(nearest_bf16(codes * s));
      };
      const __m256i halves = _mm256_or_si256(_mm256_srli_epi32(values(0), 16), values(4));
      const __m128i order = _mm_setr_epi8(0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15);
      const __m256i bytes = _mm256_shuffle_epi8(halves, _mm256_broadcastsi128_si256(order));
      low = _mm256_permute4x64_epi64(bytes, 0x88);
      high = _mm256_permute4x64_epi64(bytes, 0xdd);
    }
  }
  // The values of 32 columns from byte *p on, each vector in the order of even_lanes_first.
  DML_INLINE void get(const unsigned char* p, V (&to)[4]) const {
    const __m256i codes = even_and_odd_codes<true>(sixteen_bytes(p));
    if constexpr (Rounded) {
      const __m256i zero = _mm256_setzero_si256();
      join_bytes(zero, zero, _mm256_shuffle_epi8(low, codes), _mm256_shuffle_epi8(high, codes), to);
    } else {
      static constexpr ByteTables kTables(kNf4Codes.data());
      join_bytes(kTables.look_up(0, codes), kTables.look_up(1, codes), kTables.look_up(2, codes),
                 kTables.look_up(3, codes), to);
#pragma GCC unroll 4
      for (V& x : to) x *= scale;
    }
  }
};
// Unpacks `count` blocks.
template <bool Rounded>
DML_INLINE void nf4_blocks(const std::uint8_t* codes, const float* scales, std::int64_t count, float* to) {
  for (; count > 0; --count, ++scales) {
    const Nf4Values<Rounded> values(*scales);
    for (int half = 0; half < 2; ++half, codes += 16, to += 32) {
      V part[4];
      values.get(codes, part);
      for (int i = 0; i < 4; ++i) store(to + i * W, in_order_of_columns(part[i]));
    }
  }
}
#endif

void from_nf4(const void* from, const float* scales, bool rounded, std::int64_t first, std::int64_t n, float* to) {
  auto* codes = static_cast<const std::uint8_t*>(from);
  std::int64_t i = first, end = first + n;
  // The values up to the end of the current block.
  auto some = [&] {
    const Nf4Table table = nf4_table(scales[i / 64], rounded);
    float value[16];
    __builtin_memcpy(value, &table, sizeof value);
    for (std::int64_t last = i / 64 * 64 + 64 < end ? i / 64 * 64 + 64 : end; i < last; ++i)
      *to++ = value[i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4];
  };
  if (i < end && i % 64 != 0) some();
#if DML_VECTOR_BYTES == 64
  // 8 bytes hold 16 codes: each byte is spread over two lanes, shifted to its nibble, and looked up in a register.
  const __m512i shift = _mm512_set_epi32(0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4);
  const __m128i spread = _mm_set_epi8(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
  for (; i + 64 <= end; i += 64, to += 64) {
    const __m512 table = nf4_table(scales[i / 64], rounded).part[0];
    for (int part = 0; part < 4; ++part) {
      __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + i / 2 + 8 * part));
      __m512i code =
          _mm512_maskz_srlv_epi32(0xffff, _mm512_maskz_cvtepu8_epi32(0xffff, _mm_shuffle_epi8(bytes, spread)), shift);
      _mm512_storeu_ps(to + 16 * part, _mm512_maskz_permutexvar_ps(0xffff, code, table));
    }
  }
#elif DML_VECTOR_BYTES == 32
  if (const std::int64_t blocks = (end - i) / 64; blocks > 0) {
    if (rounded) nf4_blocks<true>(codes + i / 2, scales + i / 64, blocks, to);
    else nf4_blocks<false>(codes + i / 2, scales + i / 64, blocks, to);
    i += blocks * 64;
    to += blocks * 64;
  }
#endif
  while (i < end) some();
}
