// Few rows of x with rows of int8, on tiles that read them where they are stored. A row of x becomes fixed-point
// numbers of 31 bits under a power of two, and these four digits of eight bits, each with its own sign: products and
// sums are integers, exact, and rounded once in the end. A digit off by half its last place is 2⁻³¹ of the row's
// largest value, where a chain of float32 is off by 2⁻²⁴ of its largest sum.
//
// A tile of x is 16 times four steps of the depth, of four rows of x; its columns are the digits of the first row, of
// the second …
constexpr std::int64_t kInt8Cols = 64, kDigits = 4;
constexpr std::int64_t kMaxInt8Cols = 1 << 16;  // sums of so many products of digits fit into 32 bits

template <int M>
struct Int8Tiles {
  using Sum = std::int32_t;
  static constexpr bool kTwo = M > 4;
  static constexpr std::uint16_t kWidth = (kTwo ? 4 : M) * kDigits * 4;  // bytes of a row of a tile
  static constexpr std::int64_t kSecondAt = kTile * kWidth, kBytes = kSecondAt * (kTwo ? 2 : 1);  // of 64 steps
  static constexpr TileShapes kShapes{kWidth, kWidth};
  DML_INLINE static void multiply_first() {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(2, 5, 6);
  }
  DML_INLINE static void multiply_second() {
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(3, 5, 7);
  }
  DML_INLINE static double sum_of(const StoredSums<Int8Tiles>& sums, std::int64_t n, std::int64_t r) {
    const std::int32_t* digit = &sums.part[r / 4][n][r % 4 * kDigits];
    std::int64_t sum = digit[3];
    for (int d = 2; d >= 0; --d) sum = sum * 256 + digit[d];
    return static_cast<double>(sum);
  }
};

// The largest magnitude; NaN where a value is not finite.
DML_INLINE float largest_of(const float* x, std::int64_t cols) {
  V most{};
  bool finite = true;
  for (std::int64_t i = 0; i < cols; i += W) {
    const auto v = reinterpret_cast<__m512>(load_some(x + i, cols - i));
    finite = finite && _mm512_fpclass_ps_mask(v, 0x99) == 0;  // infinities and NaN
    most = reinterpret_cast<V>(_mm512_maskz_max_ps(0xffff, reinterpret_cast<__m512>(most), _mm512_abs_ps(v)));
  }
  return finite ? largest(most) : std::numeric_limits<float>::quiet_NaN();
}

// The power of two under which a row's values are integers of 31 bits; NaN where one is not finite.
DML_INLINE double unit_of(const float* x, std::int64_t cols) {
  const float most = largest_of(x, cols);
  int exponent = 0;
  std::frexp(most, &exponent);
  return most == most ? std::ldexp(1.0, (exponent < -90 ? -90 : exponent) - 30)
                      : std::numeric_limits<double>::quiet_NaN();
}

template <int M>
void pack_digits(const float* x, std::int64_t m, std::int64_t ldx, std::int64_t cols, char* to, double (&unit)[M]) {
  using Tiles = Int8Tiles<M>;
  // Added and taken away bit by bit, this makes bytes digits with a sign. Then digits of four steps lie side by side.
  const __m512i half = _mm512_set1_epi32(0x00808080);
  const __m512i gather = _mm512_set4_epi32(0x0f0b0703, 0x0e0a0602, 0x0d090501, 0x0c080400);
  for (std::int64_t r = 0; r < M; ++r) {
    unit[r] = r < m ? unit_of(x + r * ldx, cols) : 1;
    const auto factor = static_cast<float>(1 / unit[r]);
    char* row = to + (r / 4) * Tiles::kSecondAt + (r % 4) * kDigits * 4;
    for (std::int64_t col = 0; col < cols; col += W) {
      const V v = r < m ? load_some(x + r * ldx + col, cols - col) * factor : V{};
      const __m512i integer = _mm512_maskz_cvtps_epi32(0xffff, reinterpret_cast<__m512>(v));
      const __m512i digits = _mm512_shuffle_epi8(_mm512_xor_si512(_mm512_add_epi32(integer, half), half), gather);
      char group[4][kDigits * 4];
      __builtin_memcpy(group, &digits, sizeof group);
      char* at = row + col / kInt8Cols * Tiles::kBytes + col % kInt8Cols / 4 * Tiles::kWidth;
      for (int g = 0; g < 4; ++g) __builtin_memcpy(at + g * Tiles::kWidth, group[g], sizeof group[g]);
    }
    for (std::int64_t col = (cols + W - 1) / W * W; col % kInt8Cols != 0; col += 4)
      __builtin_memset(row + col / kInt8Cols * Tiles::kBytes + col % kInt8Cols / 4 * Tiles::kWidth, 0, kDigits * 4);
  }
}

template <int M>
void few_rows_of_int8(const char* w, const float* scales, std::int64_t cols, std::int64_t count, std::int64_t m,
                      const float* x, std::int64_t ldx, float* c, std::int64_t ldc, bool add, float* room) {
  using Tiles = Int8Tiles<M>;
  auto* packed = reinterpret_cast<char*>(room);
  double unit[M];
  if (count >= kFewRows) prefetch_bytes(w, kFewRows * cols);
  pack_digits<M>(x, m, ldx, cols, packed, unit);
  stored_panel<Tiles>(
      w, cols, count, packed, [&](const StoredSums<Tiles>& sums, std::int64_t first, std::int64_t rows) {
        for (std::int64_t r = 0; r < m; ++r)
          for (std::int64_t n = 0; n < rows; ++n) {
            float& to = c[r * ldc + first + n];
            const auto value =
                static_cast<float>(Tiles::sum_of(sums, n, r) * (unit[r] * static_cast<double>(scales[first + n])));
            to = add ? to + value : value;
          }
      });
}
