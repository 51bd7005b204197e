// Quantized weights as bytes with a sign, for integer_products_amx.inl (kernels/quant_ggml.cpp says what their own
// bytes are). 16 rows are unpacked together, a vector holds four columns of each: this is how tiles read a second
// factor.
//
// A kind has unpack(rows, step, to): steps 0 to 3 give 64 of 256 columns each; at the end of a row there may be fewer
// steps. A part gets its integers in groups of four columns, the scale of every row, and with kMins what is added to
// its values.
//   kPartCols   columns of a part
//   kReads      calls of rows.words() in a step, without those for scales
//   kBlockCols, kBytes  columns and bytes of a block

// 16 rows, `stride` bytes apart. Each call of words() prefetches Ahead bytes at `next`: a little at a time, since many
// requests at once would hold up the loads.
template <int Ahead>
struct SixteenRows {
  const unsigned char* p;
  std::int64_t stride;
  const unsigned char* next;

  // to[i] = the i-th of four words at `at`.
  DML_INLINE void words(std::int64_t at, __m512i (&to)[4]) {
    constexpr int kLines = (Ahead + 63) / 64;
    __m512i four[4];  // every fourth row
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
#pragma GCC unroll 4
      for (int line = j; line < kLines; line += 4) __builtin_prefetch(next + 64 * line, 0, 2);
      auto row = [&](int n) __attribute__((always_inline)) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + (j + n) * stride + at));
      };
      four[j] = _mm512_maskz_inserti32x4(0xffff, _mm512_castsi128_si512(row(0)), row(4), 1);
      four[j] = _mm512_maskz_inserti32x4(0xffff, four[j], row(8), 2);
      four[j] = _mm512_maskz_inserti32x4(0xffff, four[j], row(12), 3);
    }
    const __m512i low[] = {_mm512_maskz_unpacklo_epi32(0xffff, four[0], four[1]),
                           _mm512_maskz_unpacklo_epi32(0xffff, four[2], four[3])};
    const __m512i high[] = {_mm512_maskz_unpackhi_epi32(0xffff, four[0], four[1]),
                            _mm512_maskz_unpackhi_epi32(0xffff, four[2], four[3])};
    to[0] = _mm512_maskz_unpacklo_epi64(0xff, low[0], low[1]);
    to[1] = _mm512_maskz_unpackhi_epi64(0xff, low[0], low[1]);
    to[2] = _mm512_maskz_unpacklo_epi64(0xff, high[0], high[1]);
    to[3] = _mm512_maskz_unpackhi_epi64(0xff, high[0], high[1]);
    next += Ahead;
  }
  DML_INLINE __m512i word(std::int64_t at) const {
    const VI offsets = lane_numbers() * static_cast<std::int32_t>(stride);
    return _mm512_mask_i32gather_epi32(__m512i{}, 0xffff, reinterpret_cast<__m512i>(offsets), p + at, 1);
  }
};

// The values of the halves in the lower or upper 16 bits.
DML_INLINE V lower_halves(__m512i words) {
  return reinterpret_cast<V>(_mm512_maskz_cvtph_ps(0xffff, _mm512_maskz_cvtepi32_epi16(0xffff, words)));
}
DML_INLINE __m512i shifted(__m512i x, int bits) { return reinterpret_cast<__m512i>(reinterpret_cast<VU>(x) >> bits); }
DML_INLINE V upper_halves(__m512i words) { return lower_halves(shifted(words, 16)); }
DML_INLINE __m512i low_bits(__m512i x, int mask) {
  return _mm512_and_si512(x, _mm512_set1_epi8(static_cast<char>(mask)));
}
DML_INLINE __m512i minus(__m512i x, int bytes) {
  return _mm512_sub_epi8(x, _mm512_set1_epi8(static_cast<char>(bytes)));
}
// Byte i of every lane, as a number.
DML_INLINE V byte_of(__m512i x, int i) {
  return __builtin_convertvector(reinterpret_cast<VI>(shifted(x, 8 * i)) & 255, V);
}
DML_INLINE V signed_byte_of(__m512i x, int i) {
  return __builtin_convertvector(reinterpret_cast<VI>(x) << (24 - 8 * i) >> 24, V);
}

DML_INLINE __m512i iq4_values(__m512i codes) {
  const auto table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kIq4Values));
  return _mm512_shuffle_epi8(_mm512_maskz_broadcast_i32x4(0xffff, table), codes);
}

// 256 columns of 16 rows, as tiles and vectors read them: the codes of a part are a tile, a scale and a minimum of each
// row are a vector.
template <class Kind>
struct UnpackedParts {
  static constexpr int kParts = 256 / Kind::kPartCols, kGroups = Kind::kPartCols / 4;
  alignas(64) char codes[kParts][kGroups * 64];
  alignas(64) float scales[kParts][W], mins[Kind::kMins ? kParts : 1][W];

  DML_INLINE void put(std::int64_t part, int group, __m512i bytes) {
    _mm512_store_si512(codes[part] + group * 64, bytes);
  }
};

// A scale of 16 bits before the codes of 32 columns.
template <int Bytes>
struct ScaledParts {
  static constexpr int kPartCols = 32, kBlockCols = 32, kBytes = Bytes, kReads = 2;
  static constexpr bool kMins = false;
};

struct Q8_0Parts : ScaledParts<34> {
  static constexpr int kReads = 4;
  template <class Rows>
  DML_INLINE static void unpack(Rows& rows, std::int64_t step, UnpackedParts<Q8_0Parts>& to) {
#pragma GCC unroll 2
    for (std::int64_t part = 2 * step; part < 2 * step + 2; ++part) {
      const std::int64_t at = part * kBytes;
      store(to.scales[part], lower_halves(rows.word(at)));
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        __m512i words[4];
        rows.words(at + 2 + 16 * half, words);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) to.put(part, 4 * half + i, words[i]);
      }
    }
  }
};

// Codes of four bits: of 32 columns, low nibbles are the first 16. value(codes, group) gives the integers.
template <class Kind, class Rows, class F>
DML_INLINE void unpack_nibbles(Rows& rows, std::int64_t at, std::int64_t part, UnpackedParts<Kind>& to, F value) {
  __m512i words[4];
  rows.words(at, words);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    to.put(part, i, value(low_bits(words[i], 15), i));
    to.put(part, 4 + i, value(low_bits(shifted(words[i], 4), 15), 4 + i));
  }
}

// q4_0, q4_1, q5_0 and q5_1.
template <int Bits, bool Mins>
struct SmallParts : ScaledParts<(Mins ? 4 : 2) + (Bits == 5 ? 4 : 0) + 16> {
  static constexpr bool kMins = Mins;
  using SmallParts::ScaledParts::kBytes;
  template <class Rows>
  DML_INLINE static void unpack(Rows& rows, std::int64_t step, UnpackedParts<SmallParts>& to) {
#pragma GCC unroll 2
    for (std::int64_t part = 2 * step; part < 2 * step + 2; ++part) {
      const std::int64_t at = part * kBytes;
      const __m512i front = rows.word(at);
      store(to.scales[part], lower_halves(front));
      if constexpr (Mins) store(to.mins[part], upper_halves(front));
      const __m512i fifths = Bits == 5 ? rows.word(at + (Mins ? 4 : 2)) : __m512i{};
      unpack_nibbles(
          rows, at + kBytes - 16, part, to, [&](__m512i codes, int group) __attribute__((always_inline)) {
            if constexpr (Bits == 5) {  // the bits of four columns, each to the fifth place of its byte
              const VU four = reinterpret_cast<VU>(fifths) >> (4 * group) & 15;
              codes = _mm512_or_si512(codes, reinterpret_cast<__m512i>((four * 0x00204081 & 0x01010101) << 4));
            }
            return Mins ? codes : minus(codes, 1 << (Bits - 1));
          });
    }
  }
};

struct Iq4NlParts : ScaledParts<18> {
  template <class Rows>
  DML_INLINE static void unpack(Rows& rows, std::int64_t step, UnpackedParts<Iq4NlParts>& to) {
#pragma GCC unroll 2
    for (std::int64_t part = 2 * step; part < 2 * step + 2; ++part) {
      const std::int64_t at = part * kBytes;
      store(to.scales[part], lower_halves(rows.word(at)));
      unpack_nibbles(
          rows, at + 2, part, to, [](__m512i codes, int) __attribute__((always_inline)) { return iq4_values(codes); });
    }
  }
};

// Blocks of 256 columns with scales for their parts.
template <int Bytes>
struct BlocksOf256 {
  static constexpr int kPartCols = 32, kBlockCols = 256, kBytes = Bytes, kReads = 2;
  static constexpr bool kMins = false;
};

struct Iq4XsBlock : BlocksOf256<136> {
  template <class Rows>
  DML_INLINE static void unpack(Rows& rows, std::int64_t step, UnpackedParts<Iq4XsBlock>& to) {
    const __m512i front = rows.word(0), low = rows.word(4);
    const V scale = lower_halves(front);
#pragma GCC unroll 2
    for (int part = 2 * static_cast<int>(step), end = part + 2; part < end; ++part) {
      const VI code =
          (reinterpret_cast<VI>(low) >> 4 * part & 15) | (reinterpret_cast<VI>(front) >> (16 + 2 * part) & 3) << 4;
      store(to.scales[part], __builtin_convertvector(code - 32, V) * scale);
      unpack_nibbles(
          rows, 8 + 16 * part, part, to,
          [](__m512i codes, int) __attribute__((always_inline)) { return iq4_values(codes); });
    }
  }
};

// q4_k and q5_k. Of every 64 columns, low nibbles are the first 32.
template <int Bits>
struct KBlock : BlocksOf256<Bits == 4 ? 144 : 176> {
  static constexpr int kReads = Bits == 5 ? 4 : 2;
  static constexpr bool kMins = true;
  template <class Rows>
  DML_INLINE static void unpack(Rows& rows, std::int64_t step, UnpackedParts<KBlock>& to) {
    if (step == 0) put_scales(rows, to);
    const std::int64_t part = 2 * step;
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {  // 16 bytes each
      __m512i words[4], fifths[4];
      rows.words((Bits == 5 ? 48 : 16) + 32 * step + 16 * half, words);
      if constexpr (Bits == 5) rows.words(16 + 16 * half, fifths);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        __m512i even = low_bits(words[i], 15), odd = low_bits(shifted(words[i], 4), 15);
        if constexpr (Bits == 5) {
          even = _mm512_or_si512(even, fifth(fifths[i], static_cast<int>(part)));
          odd = _mm512_or_si512(odd, fifth(fifths[i], static_cast<int>(part) + 1));
        }
        to.put(part, 4 * half + i, even);
        to.put(part + 1, 4 * half + i, odd);
      }
    }
  }

 private:
  // Bit i of every byte, in the fifth place.
  DML_INLINE static __m512i fifth(__m512i bits, int i) {
    const auto x = reinterpret_cast<VU>(bits);
    return low_bits(reinterpret_cast<__m512i>(i < 4 ? x << (4 - i) : x >> (i - 4)), 16);
  }
  // Scales and minima of six bits: the first four in the low six bits of bytes 0 to 3 and 4 to 7; of the others the low
  // nibbles in bytes 8 to 11, and the upper two bits above those of the first four.
  template <class Rows>
  DML_INLINE static void put_scales(Rows& rows, UnpackedParts<KBlock>& to) {
    __m512i front[4];
    rows.words(0, front);
    const V scale = lower_halves(front[0]), min = -upper_halves(front[0]);
    auto put = [&](__m512i four, V factor, float(*out)[W]) __attribute__((always_inline)) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) store(out[i], byte_of(four, i) * factor);
    };
    auto later = [&](__m512i low, __m512i first) __attribute__((always_inline)) {
      return _mm512_or_si512(low_bits(low, 15), low_bits(shifted(first, 2), 0x30));
    };
    put(low_bits(front[1], 63), scale, to.scales);
    put(later(front[3], front[1]), scale, to.scales + 4);
    put(low_bits(front[2], 63), min, to.mins);
    put(later(shifted(front[3], 4), front[2]), min, to.mins + 4);
  }
};

// 128 columns are four quarters of 32: low nibbles of two times 32 bytes, then the high ones; the upper two bits of all
// four share 32 bytes. A scale for 16 columns.
struct Q6KBlock : BlocksOf256<210> {
  static constexpr int kPartCols = 16, kReads = 6;
  template <class Rows>
  DML_INLINE static void unpack(Rows& rows, std::int64_t step, UnpackedParts<Q6KBlock>& to) {
    if (step == 0) {
      __m512i scales[4];
      rows.words(192, scales);
      const V scale = upper_halves(rows.word(206));
#pragma GCC unroll 16
      for (int part = 0; part < 16; ++part) store(to.scales[part], signed_byte_of(scales[part / 4], part % 4) * scale);
    }
    // 64 columns, half of a half.
    const std::int64_t half = step / 2, upper = step % 2;
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      __m512i first[4], second[4], pairs[4];
      rows.words(64 * half + 16 * i, first);
      rows.words(64 * half + 32 + 16 * i, second);
      rows.words(128 + 32 * half + 16 * i, pairs);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        auto put = [&](int quarter, __m512i low, VU high) __attribute__((always_inline)) {
          const __m512i codes = _mm512_or_si512(low_bits(low, 15), low_bits(reinterpret_cast<__m512i>(high), 0x30));
          to.put(4 * step + 2 * quarter + i, j, minus(codes, 32));
        };
        const auto two = reinterpret_cast<VU>(pairs[j]) >> (4 * static_cast<int>(upper));
        put(0, shifted(first[j], 4 * static_cast<int>(upper)), two << 4);
        put(1, shifted(second[j], 4 * static_cast<int>(upper)), two << 2);
      }
    }
  }
};
