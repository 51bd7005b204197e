// Rows of mxfp4 and of ggml's blocks for stored_products.inl (kernels/quant_ggml.cpp says what their bytes are). A
// value has the bits that unpacking gives it: a product and a difference are rounded one after the other. 16 values of
// four bits are a table, where a vector holds it.
#if DML_VECTOR_BYTES >= 32

DML_INLINE float half_at(const unsigned char* p) {
  std::uint16_t bits;
  __builtin_memcpy(&bits, p, sizeof bits);
  return _cvtsh_ss(bits);
}
// half_at(p) in every lane. AVX-512 broadcasts the half and then widens it: the other way round takes longer.
DML_INLINE V halves_at(const unsigned char* p) {
#if DML_VECTOR_BYTES == 64
  std::int16_t bits;
  __builtin_memcpy(&bits, p, sizeof bits);
  return reinterpret_cast<V>(_mm512_maskz_cvtph_ps(0xffff, _mm256_set1_epi16(bits)));
#else
  return all(half_at(p));
#endif
}
// W bytes.
DML_INLINE VI unsigned_bytes(const unsigned char* p) {
#if DML_VECTOR_BYTES == 64
  return reinterpret_cast<VI>(_mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#else
  return reinterpret_cast<VI>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#endif
}
DML_INLINE VI signed_bytes(const unsigned char* p) {
#if DML_VECTOR_BYTES == 64
  return reinterpret_cast<VI>(_mm512_maskz_cvtepi8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#else
  return reinterpret_cast<VI>(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#endif
}
DML_INLINE V floats(VI x) { return __builtin_convertvector(x, V); }
#if DML_VECTOR_BYTES == 64
// Of every index the last four bits count.
DML_INLINE V looked_up(VI index, V table) {
  return reinterpret_cast<V>(
      _mm512_maskz_permutexvar_ps(0xffff, reinterpret_cast<__m512i>(index), reinterpret_cast<__m512>(table)));
}
#endif

constexpr int kPart = 32 / W;  // vectors of 32 columns

// 2^(code − 127).
DML_INLINE float power_of_two(std::uint32_t code) {
  return std::bit_cast<float>(code == 0 ? std::uint32_t{0x400000} : code << 23);
}

struct Mxfp4Rows : NibbleRows {
  const std::uint8_t* powers;
  std::int64_t row_step;
  struct Block {
    const unsigned char* p;
    const std::uint8_t* powers;
    DML_INLINE float scale(int v) const { return power_of_two(powers[v / kPart]); }
#if DML_VECTOR_BYTES == 64
    DML_INLINE V get(int v) const {
      return looked_up<false>(p, v, Nf4Table{{ load(kMxfp4Values) * scale(v) }});
    }
#else
    DML_INLINE void get(int v, V (&to)[4]) const {
      static constexpr ByteTables kTables(kMxfp4Values);  // the lower two bytes of all values are zero
      const __m256i codes = even_and_odd_codes<false>(sixteen_bytes(p + 4 * v)), zero = _mm256_setzero_si256();
      join_bytes(zero, zero, kTables.look_up(2, codes), kTables.look_up(3, codes), to);
#pragma GCC unroll 4
      for (V& x : to) x *= scale(v);
    }
#endif
  };
  struct Row {
    const unsigned char* p;
    const std::uint8_t* powers;
    DML_INLINE Block block(std::int64_t i) const { return {p + (i >> 1), powers + i / kMxfp4Block}; }
    void values(std::int64_t, std::int64_t, float*) const {}
  };
  DML_INLINE Row row(std::int64_t n) const {
    return {at(n * row_step, kBits), powers + n * row_step * cols / kMxfp4Block};
  }
};

struct BlockRow {
  const unsigned char* p;
  void values(std::int64_t, std::int64_t, float*) const {}  // rows consist of whole blocks
};
template <int Bytes, int Columns>
struct BlockRows : StoredRows {
  static constexpr int kBytes = Bytes, kBytes256 = Bytes * 256 / Columns;
  DML_INLINE const unsigned char* begin(std::int64_t n) const { return data + n * (cols / Columns * Bytes); }
};

struct Q8_0Rows : BlockRows<34, 32> {
  struct Block {
    const unsigned char* p;
    DML_INLINE V get(int v) const {
      const unsigned char* at = p + v / kPart * kBytes;
      return floats(signed_bytes(at + 2 + v % kPart * W)) * halves_at(at);
    }
  };
  struct Row : BlockRow {
    DML_INLINE Block block(std::int64_t i) const { return {p + i / 32 * kBytes}; }
  };
  DML_INLINE Row row(std::int64_t n) const { return {begin(n)}; }
};

// q4_0 and iq4_nl: low nibbles are the first 16 columns, high ones the others.
using Codes16 = signed char[16];
constexpr Codes16 kFromMinus8 = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
constexpr Codes16 kUnequalCodes = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
template <const Codes16& Codes>
struct FourBitRows : BlockRows<18, 32> {
  struct Block {
    const unsigned char* p;
#if DML_VECTOR_BYTES == 64
    DML_INLINE V get(int v) const {
      const unsigned char* at = p + v / kPart * kBytes;
      const VI codes = unsigned_bytes(at + 2);
      const V table = floats(signed_bytes(reinterpret_cast<const unsigned char*>(Codes))) * halves_at(at);
      return looked_up(v % 2 == 0 ? codes : codes >> 4, table);
    }
#else
    DML_INLINE void get(int v, V (&to)[4]) const {
      const unsigned char* at = p + v / kPart * kBytes;
      const float scale = half_at(at);
      if constexpr (&Codes == &kFromMinus8) {
#pragma GCC unroll 2
        for (int i = 0; i < 2; ++i) {  // code · scale and 8 · scale are exact
          const VI codes = unsigned_bytes(at + 2 + i * W);
          to[i] = multiply_subtract(floats(codes & 15), all(scale), all(8 * scale));
          to[i + 2] = multiply_subtract(floats(codes >> 4), all(scale), all(8 * scale));
        }
      } else {
        const __m256i bytes = sixteen_bytes(at + 2), mask = _mm256_set1_epi8(15), table = sixteen_bytes(Codes);
        const __m256i low = _mm256_shuffle_epi8(table, _mm256_and_si256(bytes, mask));
        const __m256i high = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask));
        to[0] = signed_bytes_of<0, 4>(low), to[1] = signed_bytes_of<8, 12>(low);
        to[2] = signed_bytes_of<0, 4>(high), to[3] = signed_bytes_of<8, 12>(high);
#pragma GCC unroll 4
        for (V& x : to) x *= scale * kSignedByteScale;
      }
    }
#endif
  };
  struct Row : BlockRow {
    DML_INLINE Block block(std::int64_t i) const { return {p + i / 32 * kBytes}; }
  };
  DML_INLINE Row row(std::int64_t n) const { return {{this->begin(n)}}; }
};

// Of every 64 columns, low nibbles are the first 32.
struct Q4KRows : BlockRows<144, 256> {
  struct Block {
    const float *steps, *downs;
    const unsigned char* p;
#if DML_VECTOR_BYTES == 64
    DML_INLINE V get(int v) const {
      const int group = v / kPart;
      const VI bytes = unsigned_bytes(p + v % kPart * W), codes = group == 0 ? bytes : bytes >> 4;
      V table = floats(lane_numbers()) * steps[group];
      keep(table);
      return looked_up(codes, table - downs[group]);
    }
#else
    DML_INLINE void get(int v, V (&to)[4]) const {
      const int group = v / kPart;
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const VI codes = unsigned_bytes(p + i * W);
        // code · step is exact: 4 bits times the 11 of a half and the 6 of its factor.
        to[i] = multiply_subtract(floats(group == 0 ? codes & 15 : codes >> 4), all(steps[group]), all(downs[group]));
      }
    }
#endif
  };
  struct Row : BlockRow {
    alignas(32) float steps[8], downs[8];
    // Scales and minima of six bits: the first four in the low six bits of bytes 0 to 3 and 4 to 7; of the others the
    // low nibbles in bytes 8 to 11, and the upper two bits above those of the first four.
    DML_INLINE void open(std::int64_t i) {
      const unsigned char* at = p + i / 256 * kBytes;
      std::uint32_t first, second, third;
      __builtin_memcpy(&first, at + 4, 4);
      __builtin_memcpy(&second, at + 8, 4);
      __builtin_memcpy(&third, at + 12, 4);
      auto put = [](float* to, std::uint32_t low, std::uint32_t high, float scale) __attribute__((always_inline)) {
        const auto codes = static_cast<long long>(low | std::uint64_t{high} << 32);
        const __m256 eight = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(codes)));
        _mm256_store_ps(to, _mm256_mul_ps(eight, _mm256_set1_ps(scale)));
      };
      put(steps, first & 0x3f3f3f3f, (third & 0x0f0f0f0f) | (first >> 2 & 0x30303030), half_at(at));
      put(downs, second & 0x3f3f3f3f, (third >> 4 & 0x0f0f0f0f) | (second >> 2 & 0x30303030), half_at(at + 2));
    }
    DML_INLINE Block block(std::int64_t i) const {
      const std::int64_t pair = i % 256 / kBlockCols;
      return {steps + 2 * pair, downs + 2 * pair, p + i / 256 * kBytes + 16 + 32 * pair};
    }
  };
  DML_INLINE Row row(std::int64_t n) const { return {{begin(n)}, {}, {}}; }
};

// 128 columns are four quarters of 32: low nibbles of two times 32 bytes, then the high ones; the upper two bits of all
// four share 32 bytes. A scale for 16 columns.
struct Q6KRows : BlockRows<210, 256> {
  struct Block {
#if DML_VECTOR_BYTES == 64
    const float* scales;  // of 16 columns each
    alignas(64) std::int8_t codes[64];
    DML_INLINE V get(int v) const {
      return floats(signed_bytes(reinterpret_cast<const unsigned char*>(codes + v * W))) * scales[v];
    }
#else
    const float* scales;              // of the quarters
    const unsigned char *low, *high;  // of the half
    int pair;                         // of quarters
    DML_INLINE void get(int v, V (&to)[4]) const {
      const int quarter = v / kPart;
      auto at = [](const unsigned char* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); };
      const __m256i nibbles = _mm256_srlv_epi32(at(low + 32 * quarter), _mm256_set1_epi32(4 * pair));
      __m256i above = _mm256_sllv_epi32(at(high), _mm256_set1_epi32(4 - 4 * pair));
      if (quarter == 1) above = _mm256_srli_epi16(above, 2);
      __m256i codes = _mm256_or_si256(_mm256_and_si256(nibbles, _mm256_set1_epi8(0x0f)),
                                      _mm256_and_si256(above, _mm256_set1_epi8(0x30)));
      codes = _mm256_sub_epi8(codes, _mm256_set1_epi8(32));
      // Four columns of eight in each half.
      codes = _mm256_permutevar8x32_epi32(codes, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
      to[0] = signed_bytes_of<0, 0>(codes), to[1] = signed_bytes_of<4, 4>(codes);
      to[2] = signed_bytes_of<8, 8>(codes), to[3] = signed_bytes_of<12, 12>(codes);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) to[i] *= scales[2 * quarter + i / 2];
    }
#endif
  };
  struct Row : BlockRow {
    alignas(64) float scales[16];
    DML_INLINE void open(std::int64_t i) {
      const unsigned char* at = p + i / 256 * kBytes;
#if DML_VECTOR_BYTES == 64
      const V scale = all(half_at(at + 208));
#else
      const V scale = all(half_at(at + 208) * kSignedByteScale);
#endif
      for (int j = 0; j < 16; j += static_cast<int>(W)) store(scales + j, floats(signed_bytes(at + 192 + j)) * scale);
    }
    DML_INLINE Block block(std::int64_t i) const {
      const unsigned char* at = p + i / 256 * kBytes;
      const std::int64_t half = i % 256 / 128, pair = i % 128 / kBlockCols;
      const unsigned char *low = at + 64 * half, *high = at + 128 + 32 * half;
#if DML_VECTOR_BYTES == 64
      // The codes of 64 columns are joined as bytes. get() reads them from memory, where bytes are quicker to widen
      // than in a register.
      typedef std::uint64_t Words64 __attribute__((vector_size(64)));
      typedef std::int8_t Bytes __attribute__((vector_size(64)));
      Words64 nibbles;
      __builtin_memcpy(&nibbles, low, sizeof nibbles);
      nibbles = nibbles >> (4 * pair) & 0x0f0f0f0f0f0f0f0f;
      const auto both = reinterpret_cast<Words64>(  // for the quarters of the pair
          _mm512_maskz_broadcast_i64x4(0xff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(high))));
      const Words64 above =
          pair == 0 ? both << Words64{4, 4, 4, 4, 2, 2, 2, 2} : both >> Words64{0, 0, 0, 0, 2, 2, 2, 2};
      const Bytes codes = reinterpret_cast<Bytes>(nibbles | (above & 0x3030303030303030)) - 32;
      Block block;
      block.scales = scales + 8 * half + 4 * pair;
      __builtin_memcpy(block.codes, &codes, sizeof codes);
      return block;
#else
      return {scales + 8 * half + 4 * pair, low, high, static_cast<int>(pair)};
#endif
    }
  };
  DML_INLINE Row row(std::int64_t n) const { return {{begin(n)}, {}}; }
};

#endif
