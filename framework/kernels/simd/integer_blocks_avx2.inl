// Quantized weights as 16-bit integers, for integer_products_avx2.inl.
//
// A kind is built for a row and a column that is a multiple of 256. codes(first, i) gives the integers of the part of
// 32 columns first + i from there, times such scales as are integers themselves; `first` is a multiple of kSumParts,
// the parts whose products with 16-bit integers add up within 32 bits. scale(first) is the factor of such a sum. With
// kMins, min(first) is the factor of sums of x: of the eight parts of a block of 256 columns, or of eight partial sums.
// kBytes256: bytes of 256 columns. kEvenFirst: the order of a part's columns, see Codes.

constexpr std::int64_t kPartCols = 32, kPartsOf256 = 8;

// The integers of a part. Its first vector has the even columns in order and its second the odd ones; or, unless
// kEvenFirst, each has 16 columns, the even ones before the odd ones.
struct Codes {
  __m256i first, second;
  // From bytes in the order of columns.
  DML_INLINE static Codes of_unsigned(__m256i bytes) {
    return {_mm256_and_si256(bytes, _mm256_set1_epi16(0xff)), _mm256_srli_epi16(bytes, 8)};
  }
  DML_INLINE static Codes of_signed(__m256i bytes) {
    return {_mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8), _mm256_srai_epi16(bytes, 8)};
  }
  DML_INLINE Codes times(__m256i scale) const {
    return {_mm256_mullo_epi16(first, scale), _mm256_mullo_epi16(second, scale)};
  }
};

// Whole rows of parts, one after the other.
template <int Bytes256>
struct PartsOfRows {
  static constexpr int kBytes256 = Bytes256;
  static constexpr bool kMins = false, kEvenFirst = true;
  const unsigned char* p;
  DML_INLINE static const unsigned char* place(const Weight& w, std::int64_t row, std::int64_t col) {
    return static_cast<const unsigned char*>(w.data) +
           (row * w.row_step * w.cols + col) / kPartCols * kBytes256 / kPartsOf256;
  }
  DML_INLINE PartsOfRows(const Weight& w, std::int64_t row, std::int64_t col) : p(place(w, row, col)) {}
};

// A scale for each part, of 16 bits, that precedes its codes.
template <int Bytes>
struct ScaledParts : PartsOfRows<Bytes * kPartsOf256> {
  static constexpr int kSumParts = 1;
  using ScaledParts::PartsOfRows::PartsOfRows;
  DML_INLINE const unsigned char* part(std::int64_t i) const { return this->p + i * Bytes; }
  DML_INLINE V scale(std::int64_t first) const { return all(half_at(part(first))); }
};

// q4_0, q4_1, q5_0 and q5_1: low nibbles are the first 16 columns, high ones the others.
template <int Bits, bool Mins>
struct SmallParts : ScaledParts<(Mins ? 4 : 2) + (Bits == 5 ? 4 : 0) + 16> {
  static constexpr bool kMins = Mins;
  static constexpr int kFront = Mins ? 4 : 2;
  using SmallParts::ScaledParts::ScaledParts;
  DML_INLINE Codes codes(std::int64_t first, int) const {
    const unsigned char* at = this->part(first) + kFront;
    __m256i bytes = codes_of_part(at + (Bits == 5 ? 4 : 0));
    if constexpr (Bits == 5) bytes = _mm256_or_si256(bytes, fifth_bits(at));
    if constexpr (Mins) return Codes::of_unsigned(bytes);
    return Codes::of_signed(_mm256_sub_epi8(bytes, _mm256_set1_epi8(1 << (Bits - 1))));
  }
  DML_INLINE V min(std::int64_t first) const { return all(half_at(this->part(first) + 2)); }
};

struct Q8_0Parts : ScaledParts<34> {
  using ScaledParts::ScaledParts;
  DML_INLINE Codes codes(std::int64_t first, int) const { return Codes::of_signed(load_bytes(part(first) + 2)); }
};

struct Iq4NlParts : ScaledParts<18> {
  using ScaledParts::ScaledParts;
  DML_INLINE Codes codes(std::int64_t first, int) const {
    return Codes::of_signed(iq4_values(codes_of_part(part(first) + 2)));
  }
};

struct Iq4XsBlock : PartsOfRows<136> {
  static constexpr int kSumParts = 4;  // 127 · 32 · 32767, 128 columns in eight lanes
  using PartsOfRows::PartsOfRows;
  DML_INLINE Codes codes(std::int64_t first, int i) const {
    const std::int64_t part = first + i;
    std::uint16_t high;
    __builtin_memcpy(&high, p + 2, sizeof high);
    const int scale = (p[4 + part / 2] >> 4 * (part % 2) & 15) | (high >> 2 * part & 3) << 4;
    return Codes::of_signed(iq4_values(codes_of_part(p + 8 + 16 * part)))
        .times(_mm256_set1_epi16(static_cast<short>(scale - 32)));
  }
  DML_INLINE V scale(std::int64_t) const { return all(half_at(p)); }
};

// q4_k and q5_k. Of every 64 columns, low nibbles are the first 32.
template <int Bits>
struct KBlock : PartsOfRows<Bits == 4 ? 144 : 176> {
  static constexpr int kSumParts = 8;  // at most 31 · 63 · 32767, 256 columns in eight lanes
  static constexpr bool kMins = true;
  __m256i scales;  // as 16-bit integers, in both halves
  __m128i mins;    // in the lowest eight bytes

  // Scales and mins of six bits: the first four in the low six bits of bytes 0 to 3 and 4 to 7; of the others the
  // low nibbles in bytes 8 to 11, and the upper two bits above those of the first four.
  DML_INLINE KBlock(const Weight& w, std::int64_t row, std::int64_t col) : KBlock::PartsOfRows(w, row, col) {
    std::uint32_t first, second, third;
    __builtin_memcpy(&first, this->p + 4, 4);
    __builtin_memcpy(&second, this->p + 8, 4);
    __builtin_memcpy(&third, this->p + 12, 4);
    auto eight = [](std::uint32_t low, std::uint32_t high) __attribute__((always_inline)) {
      return _mm_cvtsi64_si128(static_cast<long long>(low | std::uint64_t{high} << 32));
    };
    const __m128i codes = eight(first & 0x3f3f3f3f, (third & 0x0f0f0f0f) | (first >> 2 & 0x30303030));
    scales = _mm256_broadcastsi128_si256(_mm_cvtepu8_epi16(codes));
    mins = eight(second & 0x3f3f3f3f, (third >> 4 & 0x0f0f0f0f) | (second >> 2 & 0x30303030));
  }
  DML_INLINE Codes codes(std::int64_t, int i) const {
    __m256i bytes = load_bytes(this->p + (Bits == 5 ? 48 : 16) + i / 2 * 32);
    bytes = low_bits(i % 2 == 0 ? bytes : _mm256_srli_epi16(bytes, 4), 15);
    if constexpr (Bits == 5) {
      const __m256i all_fifths = load_bytes(this->p + 16);
      const __m256i fifth = i < 4 ? _mm256_slli_epi16(all_fifths, 4 - i) : _mm256_srli_epi16(all_fifths, i - 4);
      bytes = _mm256_or_si256(bytes, low_bits(fifth, 16));
    }
    const __m256i own = _mm256_set1_epi16(static_cast<short>(2 * i | (2 * i + 1) << 8));
    return Codes::of_unsigned(bytes).times(_mm256_shuffle_epi8(scales, own));
  }
  DML_INLINE V scale(std::int64_t) const { return all(half_at(this->p)); }
  DML_INLINE V min(std::int64_t) const {
    return __builtin_convertvector(reinterpret_cast<VI>(_mm256_cvtepu8_epi32(mins)), V) * -half_at(this->p + 2);
  }
};

// 128 columns are four quarters of 32: low nibbles of two times 32 bytes, then the high ones; the upper two bits of all
// four share 32 bytes. A scale for 16 columns.
struct Q6KBlock : PartsOfRows<210> {
  static constexpr int kSumParts = 4;  // 32 · 128 · 32767, 128 columns in eight lanes
  using PartsOfRows::PartsOfRows;
  DML_INLINE Codes codes(std::int64_t first, int quarter) const {
    const __m256i nibbles = load_bytes(p + 16 * first + 32 * (quarter % 2)), pairs = load_bytes(p + 128 + 8 * first);
    const __m256i low = quarter < 2 ? nibbles : _mm256_srli_epi16(nibbles, 4);
    const __m256i high = quarter < 3 ? _mm256_slli_epi16(pairs, 4 - 2 * quarter) : _mm256_srli_epi16(pairs, 2);
    const __m256i codes = _mm256_or_si256(low_bits(low, 15), low_bits(high, 0x30));
    std::uint16_t scales;
    __builtin_memcpy(&scales, p + 192 + 2 * (first + quarter), sizeof scales);
    const __m256i both = _mm256_broadcastsi128_si256(_mm_cvtepi8_epi16(_mm_cvtsi32_si128(scales)));
    const __m256i order = _mm256_setr_m128i(_mm_set1_epi16(0x0100), _mm_set1_epi16(0x0302));
    return Codes::of_signed(_mm256_sub_epi8(codes, _mm256_set1_epi8(32))).times(_mm256_shuffle_epi8(both, order));
  }
  DML_INLINE V scale(std::int64_t) const { return all(half_at(p + 208)); }
};

// SumParts: 8 where rows consist of so many parts, else 1.
template <int SumParts>
struct Int8Parts : PartsOfRows<256> {
  static constexpr int kSumParts = SumParts;
  float of_row;
  DML_INLINE Int8Parts(const Weight& w, std::int64_t row, std::int64_t col)
      : PartsOfRows(w, row, col), of_row(w.scales[row]) {}
  DML_INLINE Codes codes(std::int64_t first, int i) const {
    return Codes::of_signed(load_bytes(p + (first + i) * kPartCols));
  }
  DML_INLINE V scale(std::int64_t) const { return all(of_row); }
};

// The nearest integers to the values of 16 codes times a factor, as tables of their bytes.
struct IntegerTable {
  alignas(16) std::uint8_t low[16] = {}, high[16] = {};
  constexpr IntegerTable(const float* values, float factor) {
    for (int i = 0; i < 16; ++i) {
      const auto integer = static_cast<int>(values[i] * factor + (values[i] < 0 ? -0.5f : 0.5f));
      low[i] = static_cast<std::uint8_t>(integer & 255), high[i] = static_cast<std::uint8_t>(integer >> 8 & 255);
    }
  }
  // Of 32 columns, two in a byte.
  template <bool HighFirst>
  DML_INLINE Codes look_up(const unsigned char* p) const {
    const __m256i codes = even_and_odd_codes<HighFirst>(sixteen_bytes(p));
    const __m256i lower = _mm256_shuffle_epi8(sixteen_bytes(low), codes);
    const __m256i upper = _mm256_shuffle_epi8(sixteen_bytes(high), codes);
    return {_mm256_unpacklo_epi8(lower, upper), _mm256_unpackhi_epi8(lower, upper)};
  }
};

// Within 2⁻¹⁴ of the block's largest value.
struct Nf4Parts : PartsOfRows<128> {
  static constexpr int kSumParts = 2, kOne = 8191;  // 8191 · 32767, 64 columns in eight lanes
  static constexpr bool kEvenFirst = false;
  static constexpr IntegerTable kTable{kNf4Codes.data(), kOne};
  const float* scales;
  DML_INLINE Nf4Parts(const Weight& w, std::int64_t row, std::int64_t col)
      : PartsOfRows(w, row, col), scales(w.scales + (row * w.cols + col) / kNf4Block) {}
  DML_INLINE Codes codes(std::int64_t first, int i) const { return kTable.look_up<true>(p + 16 * (first + i)); }
  DML_INLINE V scale(std::int64_t first) const { return all(scales[first / 2] * (1.f / kOne)); }
};

struct Mxfp4Parts : PartsOfRows<128> {
  static constexpr int kSumParts = 1;
  static constexpr bool kEvenFirst = false;
  static constexpr IntegerTable kTable{kMxfp4Values, 2};
  const std::uint8_t* powers;
  DML_INLINE Mxfp4Parts(const Weight& w, std::int64_t row, std::int64_t col)
      : PartsOfRows(w, row, col), powers(w.scale_codes + (row * w.row_step * w.cols + col) / kMxfp4Block) {}
  DML_INLINE Codes codes(std::int64_t first, int) const { return kTable.look_up<false>(p + 16 * first); }
  DML_INLINE V scale(std::int64_t first) const { return all(0.5f * power_of_two(powers[first])); }
};
