// Products of few rows (decoding) with quantized weights in the precision of bf16, on tiles of bytes. Of every 256
// columns a row of x becomes 16-bit integers under one scale, each within 2⁻¹⁶ of the largest value (bf16: within 2⁻⁹
// of itself), and these two digits of eight bits, each with its own sign. Codes of weights are integers already. Their
// products and the sums of a part's are exact; sums of parts are float32, one chain for every digit of an element.
//
// The first factor of a product of tiles is a tile of x. It has a line for each digit of M rows of x: the high digits
// of all rows, then the low ones. The second factor is a part of 16 rows of weights. Where a tile has room for more
// lines, one product takes several parts: each part has lines of its own, with zeros outside its columns.

constexpr std::int64_t kScaledCols = 256;           // of x, under one scale
constexpr float kLargestInteger = 127 * 256 + 127;  // of two digits

// How a product of tiles is made of parts.
template <class Kind, int M>
struct PartTiles {
  static constexpr int kPartCols = Kind::kPartCols, kLines = 2 * M, kStepParts = 64 / kPartCols;
  static constexpr int kRoom = kTile / kLines, kParts = kRoom < kStepParts ? kRoom : kStepParts;  // of a product
  static constexpr int kCols = kParts * kPartCols, kProducts = 64 / kCols;                        // of 64 columns
  static constexpr std::int64_t kBytes = kParts * kLines * 64;                                    // of x, 64 columns

  // Tiles 4 and 5 hold digits of x, 6 and 7 weights, 0 and 1 sums.
  static constexpr TileShapes shapes() {
    TileShapes shapes(64, 64);
    for (int tile : {0, 1, 4, 5}) shapes.rows[tile] = kParts * kLines;
    for (int tile : {4, 5}) shapes.row_bytes[tile] = kCols;
    for (int tile : {6, 7}) shapes.rows[tile] = kCols / 4;
    return shapes;
  }
};

// M rows of x, of which those that do not exist are zeros.
template <class Kind, int M>
struct IntegerRows {
  using Tiles = PartTiles<Kind, M>;
  static constexpr int kSums = kScaledCols / Kind::kPartCols;
  char* digits;
  float (*units)[2 * M];        // for every 256 columns: what 1 in a digit is worth, of each line
  float (*sums)[2 * M][kSums];  // for every 256 columns, with kMins: the sum of the digits of each line and part

  IntegerRows(const float* x, std::int64_t m, std::int64_t ldx, std::int64_t cols, float* room) {
    const std::int64_t blocks = (cols + kScaledCols - 1) / kScaledCols, floats = cols / 64 * Tiles::kBytes / 4;
    digits = reinterpret_cast<char*>(room);
    units = reinterpret_cast<float(*)[2 * M]>(room + floats);
    sums = reinterpret_cast<float(*)[2 * M][kSums]>(units + blocks);
    __builtin_memset(digits, 0, static_cast<std::size_t>(4 * floats));
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::int64_t col = b * kScaledCols, some = cols - col < kScaledCols ? cols - col : kScaledCols;
      for (std::int64_t r = 0; r < M; ++r) {
        units[b][r] = units[b][M + r] = 0;
        if (Kind::kMins)
          for (int i = 0; i < kSums; ++i) sums[b][r][i] = sums[b][M + r][i] = 0;
        if (r < m) put(x + r * ldx + col, b, r, some);
      }
    }
  }

 private:
  DML_INLINE void put(const float* x, std::int64_t b, std::int64_t r, std::int64_t cols) const {
    const float unit = largest_of(x, cols) / kLargestInteger, factor = unit > 1e-30f ? 1 / unit : 0;
    units[b][r] = 256 * unit, units[b][M + r] = unit;
    for (std::int64_t i = 0; i < cols; i += W) {
      const __m512i value = _mm512_maskz_cvtps_epi32(0xffff, reinterpret_cast<__m512>(load(x + i) * factor));
      const __m512i above = _mm512_maskz_srai_epi32(0xffff, _mm512_add_epi32(value, _mm512_set1_epi32(128)), 8);
      const std::int64_t part = i / Kind::kPartCols;
      char* to = digits + (b * kScaledCols + i) / 64 * Tiles::kBytes + (part % Tiles::kParts * Tiles::kLines + r) * 64 +
                 i % 64;
      put_digit(_mm512_maskz_cvtepi32_epi8(0xffff, above), to, sums[b][r] + part);
      put_digit(_mm512_maskz_cvtepi32_epi8(0xffff, value), to + M * 64, sums[b][M + r] + part);
    }
  }
  DML_INLINE static void put_digit(__m128i digits, char* to, float* sum) {
    __builtin_memcpy(to, &digits, sizeof digits);
    if constexpr (Kind::kMins) {
      const __m128i biased = _mm_xor_si128(digits, _mm_set1_epi8(static_cast<char>(0x80)));  // plus 128
      const __m128i both = _mm_sad_epu8(biased, _mm_setzero_si128());
      *sum += static_cast<float>(_mm_extract_epi16(both, 0) + _mm_extract_epi16(both, 4) - 16 * 128);
    }
  }
};

// Rows of weights of one kind, from a given one on.
template <class Kind>
struct PartRows {
  static constexpr std::int64_t kBytes256 = kScaledCols / Kind::kBlockCols * Kind::kBytes;
  const unsigned char* p;
  std::int64_t cols, stride;
  PartRows(const Weight& w, std::int64_t first) : cols(w.cols), stride(w.cols / Kind::kBlockCols * Kind::kBytes) {
    p = static_cast<const unsigned char*>(w.data) + first * stride;
  }
  DML_INLINE std::int64_t cols_of(std::int64_t block) const {
    const std::int64_t left = cols - block * kScaledCols;
    return left < kScaledCols ? left : kScaledCols;
  }
};

// Sums of products of digits with the integers of 16 rows.
template <class Kind, int M>
struct PartProducts {
  alignas(64) std::int32_t part[UnpackedParts<Kind>::kParts][2 * M][W];
};

// Multiplies the step-th 64 of 256 columns. `digits`: the tile of x for them.
template <class Kind, int M>
DML_INLINE void multiply_step(const UnpackedParts<Kind>& weights, std::int64_t step, const char* digits,
                              PartProducts<Kind, M>& to) {
  using Tiles = PartTiles<Kind, M>;
  memory_is_used();
  for (int i = 0; i < Tiles::kProducts; i += 2) {
    const std::int64_t part = step * Tiles::kStepParts + i * Tiles::kParts;
    _tile_loadd(4, digits + i * Tiles::kCols, 64);
    _tile_loadd(6, weights.codes[part], 64);
    _tile_zero(0);
    _tile_dpbssd(0, 4, 6);
    if constexpr (Tiles::kProducts > 1) {
      _tile_loadd(5, digits + (i + 1) * Tiles::kCols, 64);
      _tile_loadd(7, weights.codes[part + Tiles::kParts], 64);
      _tile_zero(1);
      _tile_dpbssd(1, 5, 7);
    }
    _tile_stored(0, to.part[part][0], 64);
    if constexpr (Tiles::kProducts > 1) _tile_stored(1, to.part[part + Tiles::kParts][0], 64);
  }
  memory_is_used();
}

// sum += the products of a block of 256 columns, scaled.
template <class Kind, int M>
DML_INLINE void add_parts(const UnpackedParts<Kind>& weights, const PartProducts<Kind, M>& products, std::int64_t parts,
                          const IntegerRows<Kind, M>& x, std::int64_t block, V (&sum)[2 * M]) {
  V total[2 * M] = {};
  for (std::int64_t part = 0; part < parts; ++part) {
    const V scale = load(weights.scales[part]);
#pragma GCC unroll 16
    for (int line = 0; line < 2 * M; ++line)
      total[line] += __builtin_convertvector(*reinterpret_cast<const VI*>(products.part[part][line]), V) * scale;
    if constexpr (Kind::kMins) {
      const V min = load(weights.mins[part]);
#pragma GCC unroll 16
      for (int line = 0; line < 2 * M; ++line) total[line] += x.sums[block][line][part] * min;
    }
  }
#pragma GCC unroll 16
  for (int line = 0; line < 2 * M; ++line) sum[line] += total[line] * x.units[block][line];
}

// sum = the products of the digits of x with `rows` ≤ 16 rows of weights. While the tiles multiply 64 columns, 64 of
// the next 256 are unpacked. What is read next is prefetched in the order of memory: one stream is faster than 16.
template <class Kind, int M>
void integer_sums(const PartRows<Kind>& w, std::int64_t rows, const IntegerRows<Kind, M>& x, V (&sum)[2 * M]) {
  using Tiles = PartTiles<Kind, M>;
  constexpr std::int64_t kBytes256 = PartRows<Kind>::kBytes256;
  UnpackedParts<Kind> unpacked[2];
  PartProducts<Kind, M> products;
  unsigned char copy[kTile * kBytes256];  // of less than 16 rows: nothing is read beyond the end
  if (rows < kTile) __builtin_memset(copy, 0, sizeof copy);
  const unsigned char* next = w.p + rows * w.stride;
  auto unpack = [&](std::int64_t block, std::int64_t step) __attribute__((always_inline)) {  // 64 columns
    constexpr int kAhead = kTile * kBytes256 / 4;
    SixteenRows<kAhead / Kind::kReads> from{w.p + block * kBytes256, w.stride, next};
    next += kAhead;
    if (rows < kTile) {
      const std::int64_t bytes = w.cols_of(block) / Kind::kBlockCols * Kind::kBytes;
      for (std::int64_t n = 0; step == 0 && n < rows; ++n)
        __builtin_memcpy(copy + n * kBytes256, from.p + n * w.stride, static_cast<std::size_t>(bytes));
      from.p = copy, from.stride = kBytes256;
    }
    Kind::unpack(from, step, unpacked[block % 2]);
  };
  for (V& s : sum) s = V{};
  const std::int64_t blocks = (w.cols + kScaledCols - 1) / kScaledCols;
  for (std::int64_t step = 0; step < w.cols_of(0) / 64; ++step) unpack(0, step);
  const char* digits = x.digits;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t steps = w.cols_of(b) / 64, later = b + 1 < blocks ? w.cols_of(b + 1) / 64 : 0;
    for (std::int64_t step = 0; step < steps; ++step, digits += Tiles::kBytes) {
      multiply_step<Kind, M>(unpacked[b % 2], step, digits, products);
      if (step < later) unpack(b + 1, step);
    }
    add_parts<Kind, M>(unpacked[b % 2], products, steps * Tiles::kStepParts, x, b, sum);
  }
}

template <class Kind, int M>
void integer_panel(const Weight& w, std::int64_t first, std::int64_t count, std::int64_t m, const float* x,
                   std::int64_t ldx, float* c, std::int64_t ldc, bool add, float* room) {
  static constexpr TileShapes kPartShapes = PartTiles<Kind, M>::shapes();
  const PartRows<Kind> begin(w, first);
  prefetch_bytes(begin.p, (count < kTile ? count : kTile) * begin.stride);
  const IntegerRows<Kind, M> integers(x, m, ldx, w.cols, room);
  _tile_loadconfig(&kPartShapes);
  for (std::int64_t n = 0; n < count; n += kTile) {
    const std::int64_t rows = count - n < kTile ? count - n : kTile;
    V sum[2 * M];
    integer_sums<Kind, M>({w, first + n}, rows, integers, sum);
    for (std::int64_t r = 0; r < m; ++r) {
      V both = sum[r] + sum[M + r];
      if (add) both += load_some(c + r * ldc + n, rows);
      store_part(c + r * ldc + n, both, rows);
    }
  }
  _tile_release();
}

using FewRows = decltype(Loops::few_rows);

template <class Kind>
void few_integer_rows(const Weight& w, std::int64_t first, std::int64_t count, std::int64_t m, const float* x,
                      std::int64_t ldx, float* c, std::int64_t ldc, bool add, float* room) {
  if (m == 1) integer_panel<Kind, 1>(w, first, count, m, x, ldx, c, ldc, add, room);
  else if (m == 2) integer_panel<Kind, 2>(w, first, count, m, x, ldx, c, ldc, add, room);
  else if (m <= 4) integer_panel<Kind, 4>(w, first, count, m, x, ldx, c, ldc, add, room);
  else integer_panel<Kind, 8>(w, first, count, m, x, ldx, c, ldc, add, room);
}

// The product for this kind of weights; null if they have none here.
FewRows integer_product(const Weight& w) {
  if (w.cols % 64 != 0) return nullptr;
  switch (w.dtype) {
    case DType::q4_0:
      return few_integer_rows<SmallParts<4, false>>;
    case DType::q4_1:
      return few_integer_rows<SmallParts<4, true>>;
    case DType::q5_0:
      return few_integer_rows<SmallParts<5, false>>;
    case DType::q5_1:
      return few_integer_rows<SmallParts<5, true>>;
    case DType::q8_0:
      return few_integer_rows<Q8_0Parts>;
    case DType::q4_k:
      return few_integer_rows<KBlock<4>>;
    case DType::q5_k:
      return few_integer_rows<KBlock<5>>;
    case DType::q6_k:
      return few_integer_rows<Q6KBlock>;
    case DType::iq4_nl:
      return few_integer_rows<Iq4NlParts>;
    case DType::iq4_xs:
      return few_integer_rows<Iq4XsBlock>;
    default:
      return nullptr;
  }
}
