// Rows of stored weights as vectors of bf16 pairs, for few_rows_bf16.inl. Codes are turned into bf16 in registers:
// those of four bits by a table of 16 values, of which every 16-bit lane takes one by its lowest four bits. So a lane
// gives the nibbles of two bytes after shifts, nothing is moved, and x is permuted to the order of the lanes instead.
//
// A kind of rows gives blocks of 64 columns, two vectors of 32 values:
//   kOrder   the column of each lane, vector after vector
//   kGroups  0, or the number of scales of a block: vectors g, g + kGroups … share scale(g), by which their sum is
//            multiplied in float32
//   kSuper   columns of a super-block; open(i) is called at its beginning
//   kMins    eight minima of a super-block, each for 32 columns, which are subtracted with the sums of x
//   kBits    of an element; 0 for kinds whose rows consist of whole blocks
//   kBytes256  bytes of 256 columns

typedef float V8 __attribute__((vector_size(32)));

constexpr std::int64_t kBlockCols = 64;
using Order = std::array<std::uint16_t, kBlockCols>;
template <class F>
constexpr Order order_of(F column) {
  Order order{};
  for (int lane = 0; lane < kBlockCols; ++lane) order[static_cast<std::size_t>(lane)] = column(lane);
  return order;
}
constexpr Order kInOrder = order_of([](int lane) { return static_cast<std::uint16_t>(lane); });

// Small integers as bf16, which holds them exactly.
constexpr std::uint16_t bits_of(int value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
}
using Table16 = std::array<std::uint16_t, 16>;
constexpr Table16 table_of(const signed char (&values)[16]) {
  Table16 table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = bits_of(values[i]);
  return table;
}

DML_INLINE V pairs_of(V low, V high) { return reinterpret_cast<V>(rounded(low, high)); }
DML_INLINE float half_at(const unsigned char* p) {
  std::uint16_t bits;
  __builtin_memcpy(&bits, p, sizeof bits);
  return _cvtsh_ss(bits);
}
DML_INLINE __m256i bytes32(const unsigned char* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
DML_INLINE __m128i bytes16(const unsigned char* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
// A vector of 256 bits, twice.
DML_INLINE __m512i twice(__m256i x) { return _mm512_maskz_broadcast_i64x4(0xff, x); }
// 64 codes of four bits, as 16 words, and a table of the 16 values. Each half of a vector holds the same.
struct FourBitBlock {
  __m512i words, table;
  // The values of nibble Low of every word, then those of nibble High.
  template <int Low, int High>
  DML_INLINE V values() const {
    constexpr long long kLow = Low * 4 * 0x0001000100010001, kHigh = High * 4 * 0x0001000100010001;
    const __m512i shifts = _mm512_set_epi64(kHigh, kHigh, kHigh, kHigh, kLow, kLow, kLow, kLow);
    return reinterpret_cast<V>(_mm512_maskz_permutexvar_epi16(~0u, _mm512_maskz_srlv_epi16(~0u, words, shifts), table));
  }
};
DML_INLINE __m512i load_table(const Table16& table) {
  return twice(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(table.data())));
}
// 16 integers of eight bits, times a scale.
DML_INLINE V from_bytes(const unsigned char* p, V scale) {
  const __m512i wide = _mm512_maskz_cvtepi8_epi32(0xffff, bytes16(p));
  return reinterpret_cast<V>(_mm512_maskz_cvtepi32_ps(0xffff, wide)) * scale;
}
DML_INLINE V from_bytes(const unsigned char* p) {
  return reinterpret_cast<V>(_mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, bytes16(p))));
}

// What most kinds have.
struct PlainRow {
  static constexpr const Order& kOrder = kInOrder;
  static constexpr int kGroups = 0;
  static constexpr std::int64_t kSuper = kBlockCols;
  static constexpr bool kMins = false;
  static constexpr int kBits = 0;
  const unsigned char* p;
  DML_INLINE void open(std::int64_t) {}
  DML_INLINE float finish(float sum) const { return sum; }
};

// Elements of Bits bits: a rest of less than a block is read from a copy padded with zeros.
template <int Bits>
struct ElementRow : PlainRow {
  static constexpr int kBits = Bits, kBytes256 = 32 * Bits;
  ElementRow(const Weight& w, std::int64_t n)
      : PlainRow{static_cast<const unsigned char*>(w.data) + n * w.cols * Bits / 8} {}
};

struct Bf16Row : ElementRow<16> {
  using ElementRow::ElementRow;
  struct Block {
    const unsigned char* p;
    DML_INLINE V get(int v) const { return load(reinterpret_cast<const float*>(p) + v * W); }
  };
  DML_INLINE Block block(std::int64_t i) const { return {p + 2 * i}; }
};

struct F32Row : ElementRow<32> {
  using ElementRow::ElementRow;
  struct Block {
    const float* p;
    DML_INLINE V get(int v) const { return pairs_of(load(p + 2 * v * W), load(p + (2 * v + 1) * W)); }
  };
  DML_INLINE Block block(std::int64_t i) const { return {reinterpret_cast<const float*>(p) + i}; }
};

struct F16Row : ElementRow<16> {
  using ElementRow::ElementRow;
  struct Block {
    const unsigned char* p;
    DML_INLINE V part(int at) const {
      return reinterpret_cast<V>(_mm512_maskz_cvtph_ps(0xffff, bytes32(p + 2 * at * W)));
    }
    DML_INLINE V get(int v) const { return pairs_of(part(2 * v), part(2 * v + 1)); }
  };
  DML_INLINE Block block(std::int64_t i) const { return {p + 2 * i}; }
};

struct Int8Row : ElementRow<8> {
  float scale;
  Int8Row(const Weight& w, std::int64_t n) : ElementRow(w, n), scale(w.scales[n]) {}
  struct Block {
    const unsigned char* p;
    DML_INLINE V get(int v) const { return pairs_of(from_bytes(p + 2 * v * W), from_bytes(p + (2 * v + 1) * W)); }
  };
  DML_INLINE Block block(std::int64_t i) const { return {p + i}; }
  DML_INLINE float finish(float sum) const { return scale * sum; }
};

// The values of the 16 codes under the block's scale, rounded.
struct Nf4RowBf16 : PlainRow {
  static constexpr int kBytes256 = 128;
  static constexpr Order kColumns = order_of([](int lane) {
    constexpr int kNibble[] = {1, 0, 3, 2};  // the even column is the high nibble
    return static_cast<std::uint16_t>(lane % 16 * 4 + kNibble[lane / 16]);
  });
  static constexpr const Order& kOrder = kColumns;
  const float* scales;
  Nf4RowBf16(const Weight& w, std::int64_t n)
      : PlainRow{static_cast<const unsigned char*>(w.data) + n * w.cols / 2},
        scales(w.scales + n * w.cols / kBlockCols) {}
  struct Block : FourBitBlock {
    DML_INLINE V get(int v) const { return v == 0 ? values<0, 1>() : values<2, 3>(); }
  };
  DML_INLINE Block block(std::int64_t i) const {
    const auto values = reinterpret_cast<__m512>(load(kNf4Codes.data()) * scales[i / kBlockCols]);
    return {twice(bytes32(p + i / 2)), twice(reinterpret_cast<__m256i>(_mm512_maskz_cvtneps_pbh(0xffff, values)))};
  }
};

// ---- blocks of ggml (kernels/quant_ggml.cpp says what their bytes are)

// Where row n begins.
inline const unsigned char* row_of_blocks(const Weight& w, std::int64_t n, std::int64_t bytes, std::int64_t values) {
  return static_cast<const unsigned char*>(w.data) + n * (w.cols / values * bytes);
}

struct Q8_0Row : PlainRow {
  static constexpr int kBytes = 34, kBytes256 = 8 * kBytes;
  Q8_0Row(const Weight& w, std::int64_t n) : PlainRow{row_of_blocks(w, n, kBytes, 32)} {}
  struct Block {
    const unsigned char* p;
    DML_INLINE V get(int v) const {
      const unsigned char* block = p + v * kBytes;
      const V scale = all(half_at(block));
      return pairs_of(from_bytes(block + 2, scale), from_bytes(block + 2 + W, scale));
    }
  };
  DML_INLINE Block block(std::int64_t i) const { return {p + i / 32 * kBytes}; }
};

// q4_0 and iq4_nl: two blocks of 32 side by side; integers by a table, and the scale of their sums.
constexpr Table16 kFromMinus8 = table_of({-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7});
constexpr Table16 kIq4Table = table_of(kIq4Values);
template <const Table16& Codes>
struct FourBitRow : PlainRow {
  static constexpr int kBytes = 18, kBytes256 = 8 * kBytes, kGroups = 1;
  static constexpr Order kColumns = order_of([](int lane) {
    constexpr int kNibble[] = {0, 16, 1, 17};
    const int word = lane % 16;
    return static_cast<std::uint16_t>(word / 8 * 32 + word % 8 * 2 + kNibble[lane / 16]);
  });
  static constexpr const Order& kOrder = kColumns;
  __m512i table = load_table(Codes);
  FourBitRow(const Weight& w, std::int64_t n) : PlainRow{row_of_blocks(w, n, kBytes, 32)} {}
  struct Block : FourBitBlock {
    const unsigned char* p;
    DML_INLINE V get(int v) const { return v == 0 ? values<0, 1>() : values<2, 3>(); }
    DML_INLINE V scale(int) const {
      std::uint16_t first, second;
      __builtin_memcpy(&first, p, sizeof first);
      __builtin_memcpy(&second, p + kBytes, sizeof second);
      const auto halves = [](std::uint16_t d) { return _mm_set1_epi16(static_cast<short>(d)); };
      const __m128i both = _mm_unpacklo_epi64(halves(first), halves(second));
      return reinterpret_cast<V>(_mm512_maskz_cvtph_ps(0xffff, _mm256_broadcastsi128_si256(both)));
    }
  };
  DML_INLINE Block block(std::int64_t i) const {
    const unsigned char* at = p + i / 32 * kBytes;
    const __m256i words = _mm256_inserti128_si256(_mm256_castsi128_si256(bytes16(at + 2)), bytes16(at + kBytes + 2), 1);
    return {{twice(words), table}, at};
  }
};

constexpr Table16 kFromZero = table_of({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
struct Q4KRow : PlainRow {
  static constexpr int kBytes = 144, kBytes256 = kBytes, kGroups = 2;
  static constexpr std::int64_t kSuper = 256;
  static constexpr bool kMins = true;
  static constexpr Order kColumns = order_of([](int lane) {
    constexpr int kNibble[] = {0, 1, 32, 33};
    return static_cast<std::uint16_t>(lane % 16 * 2 + kNibble[lane / 16]);
  });
  static constexpr const Order& kOrder = kColumns;
  __m512i table = load_table(kFromZero);
  alignas(32) float scales[8];
  V8 mins;
  Q4KRow(const Weight& w, std::int64_t n) : PlainRow{row_of_blocks(w, n, kBytes, 256)} {}
  struct Block : FourBitBlock {
    const float* scales;
    DML_INLINE V get(int v) const { return v == 0 ? values<0, 2>() : values<1, 3>(); }
    DML_INLINE V scale(int group) const { return all(scales[group]); }
  };
  // Scales and minima of six bits: the first four in the low six bits of bytes 0 to 3 and 4 to 7; of the others the low
  // nibbles in bytes 8 to 11, and the upper two bits above those of the first four.
  DML_INLINE void open(std::int64_t i) {
    const unsigned char* at = p + i / kSuper * kBytes;
    std::uint32_t first, second, third;
    __builtin_memcpy(&first, at + 4, 4);
    __builtin_memcpy(&second, at + 8, 4);
    __builtin_memcpy(&third, at + 12, 4);
    auto eight = [](std::uint32_t low, std::uint32_t high) __attribute__((always_inline)) {
      const auto codes = static_cast<long long>(low | std::uint64_t{high} << 32);
      return reinterpret_cast<V8>(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(codes))));
    };
    const V8 of_scales = eight(first & 0x3f3f3f3f, (third & 0x0f0f0f0f) | (first >> 2 & 0x30303030));
    const V8 of_mins = eight(second & 0x3f3f3f3f, (third >> 4 & 0x0f0f0f0f) | (second >> 2 & 0x30303030));
    const V8 scaled = of_scales * half_at(at);
    __builtin_memcpy(scales, &scaled, sizeof scales);
    mins = of_mins * half_at(at + 2);
  }
  DML_INLINE Block block(std::int64_t i) const {
    const std::int64_t pair = i % kSuper / kBlockCols;
    return {{twice(bytes32(p + i / kSuper * kBytes + 16 + 32 * pair)), table}, scales + 2 * pair};
  }
};

// Six bits look up a table of 64.
struct Q6KRow : PlainRow {
  static constexpr int kBytes = 210, kBytes256 = kBytes, kGroups = 2;
  static constexpr std::int64_t kSuper = 256;
  static constexpr auto kCodes = [] {
    std::array<std::uint16_t, 64> codes{};
    for (int i = 0; i < 64; ++i) codes[static_cast<std::size_t>(i)] = bits_of(i - 32);
    return codes;
  }();
  __m512i low = _mm512_loadu_si512(kCodes.data()), high = _mm512_loadu_si512(kCodes.data() + 32);
  alignas(64) float scales[16];
  Q6KRow(const Weight& w, std::int64_t n) : PlainRow{row_of_blocks(w, n, kBytes, 256)} {}
  struct Block {
    const Q6KRow& row;
    const unsigned char* p;  // of the super-block
    int pair;                // of quarters of 32: two pairs in each half
    DML_INLINE V get(int v) const {
      const int half = pair / 2, quarter = pair % 2 * 2 + v;
      const __m256i nibbles =
          _mm256_and_si256(_mm256_srli_epi16(bytes32(p + 64 * half + 32 * v), pair % 2 * 4), _mm256_set1_epi8(15));
      const __m256i above =
          _mm256_and_si256(_mm256_srli_epi16(bytes32(p + 128 + 32 * half), 2 * quarter), _mm256_set1_epi8(3));
      const __m256i codes = _mm256_or_si256(nibbles, _mm256_slli_epi16(above, 4));
      return reinterpret_cast<V>(
          _mm512_maskz_permutex2var_epi16(~0u, row.low, _mm512_maskz_cvtepu8_epi16(~0u, codes), row.high));
    }
    DML_INLINE V scale(int group) const {
      const float* two = row.scales + 4 * pair + 2 * group;
      return reinterpret_cast<V>(_mm512_maskz_mov_ps(
          0xffff, _mm512_mask_broadcastss_ps(_mm512_set1_ps(two[0]), 0xff00, _mm_load_ss(two + 1))));
    }
  };
  DML_INLINE void open(std::int64_t i) {
    const unsigned char* at = p + i / kSuper * kBytes;
    store(scales, from_bytes(at + 192, all(half_at(at + 208))));
  }
  DML_INLINE Block block(std::int64_t i) const {
    return {*this, p + i / kSuper * kBytes, static_cast<int>(i % kSuper / kBlockCols)};
  }
};
