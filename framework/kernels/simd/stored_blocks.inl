// Rows of mxfp4 and of ggml's blocks for stored_products.inl (kernels/quant_ggml.cpp says what their bytes are). A
// value has the bits that unpacking gives it: a product and a difference are rounded one after the other. 16 values of
// four bits are a table, where a vector holds it.
#if DML_VECTOR_BYTES >= 32

DML_INLINE float half_at(const unsigned char* p) {
  std::uint16_t bits;
  __builtin_memcpy(&bits, p, sizeof bits);
  return _cvtsh_ss(bits);
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

struct Mxfp4Rows : NibbleRows {
  const std::uint8_t* powers;
  std::int64_t row_step;
  struct Block {
    const unsigned char* p;
    const std::uint8_t* powers;
    DML_INLINE V get(int v) const {
      const std::uint32_t power = powers[v / kPart];
      const float scale = std::bit_cast<float>(power == 0 ? std::uint32_t{0x400000} : power << 23);
      Nf4Table table;
      for (int t = 0; t < 16 / W; ++t) table.part[t] = load(kMxfp4Values + t * W) * scale;
      return looked_up<false>(p, v, table);
    }
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
      return floats(signed_bytes(at + 2 + v % kPart * W)) * all(half_at(at));
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
    DML_INLINE V get(int v) const {
      const unsigned char* at = p + v / kPart * kBytes;
      const V scale = all(half_at(at));
#if DML_VECTOR_BYTES == 64
      const VI codes = unsigned_bytes(at + 2);
      const V table = floats(signed_bytes(reinterpret_cast<const unsigned char*>(Codes))) * scale;
      return looked_up(v % 2 == 0 ? codes : codes >> 4, table);
#else
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at + 2 + v % 2 * W));
      const __m128i codes = _mm_and_si128(v % kPart < 2 ? bytes : _mm_srli_epi16(bytes, 4), _mm_set1_epi8(15));
      const __m128i values = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(Codes)), codes);
      return floats(reinterpret_cast<VI>(_mm256_cvtepi8_epi32(values))) * scale;
#endif
    }
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
    DML_INLINE V get(int v) const {
      const int group = v / kPart;
      const VI bytes = unsigned_bytes(p + v % kPart * W), codes = group == 0 ? bytes : bytes >> 4;
#if DML_VECTOR_BYTES == 64
      V table = floats(lane_numbers()) * steps[group];
      keep(table);
      return looked_up(codes, table - downs[group]);
#else
      V value = floats(codes & 15) * steps[group];
      keep(value);
      return value - downs[group];
#endif
    }
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
    const float* scales;              // of the quarters
    const unsigned char *low, *high;  // of the half
    int pair;                         // of quarters
    DML_INLINE V get(int v) const {
      const int quarter = v / kPart, at = v % kPart * W;
      const VI nibbles = unsigned_bytes(low + 32 * quarter + at) >> (4 * pair) & 15;
      const VI above = unsigned_bytes(high + at) >> (4 * pair + 2 * quarter) & 3;
      return floats((nibbles | above << 4) - 32) * scales[2 * quarter + at / 16];
    }
  };
  struct Row : BlockRow {
    alignas(64) float scales[16];
    DML_INLINE void open(std::int64_t i) {
      const unsigned char* at = p + i / 256 * kBytes;
      const V scale = all(half_at(at + 208));
      for (int j = 0; j < 16; j += static_cast<int>(W)) store(scales + j, floats(signed_bytes(at + 192 + j)) * scale);
    }
    DML_INLINE Block block(std::int64_t i) const {
      const unsigned char* at = p + i / 256 * kBytes;
      const std::int64_t half = i % 256 / 128, pair = i % 128 / kBlockCols;
      return {scales + 8 * half + 4 * pair, at + 64 * half, at + 128 + 32 * half, static_cast<int>(pair)};
    }
  };
  DML_INLINE Row row(std::int64_t n) const { return {{begin(n)}, {}}; }
};

#endif
