// NF4 whose values are bf16, on tiles, in products of few rows (decoding).

// Few rows of x with rows of NF4 whose values are bf16. A float32 of x is the sum of three bf16, and the parts of all
// its rows are columns of the same tiles: all of up to four rows of one, or x₁ and x₂ of up to eight rows of one and x₃
// of another. So an element is the sum of three chains over k, whatever the company.
//
// Weights become tiles in a buffer that stays in the first-level cache, 32 rows of 128 columns while those before are
// multiplied. 32 rows lie in one piece, so those that follow are brought near in one stream.
constexpr std::int64_t kFewRows = 2 * kTile, kFewCols = 128, kFewSteps = kFewCols / kBlockDepth;
constexpr std::int64_t kPieceLines = kFewRows * kFewCols / 2 / 64;  // of 32 rows of 128 codes

// Tiles of M rows of x.
template <int M>
struct FewTiles {
  static constexpr bool kTwo = 3 * M > kTile;
  static constexpr std::uint16_t kFirst = (kTwo ? 2 : 3) * M * 4, kSecond = M * 4;  // bytes of a pair of steps
  static constexpr std::int64_t kSecondAt = kTile * kFirst, kBytes = kSecondAt + (kTwo ? kTile * kSecond : 0);
  static constexpr TileShapes kShapes{kFirst, kSecond};
};

DML_INLINE V even_ones(V a, V b) {
  return __builtin_shuffle(a, b, VI{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30});
}
DML_INLINE V odd_ones(V a, V b) {
  return __builtin_shuffle(a, b, VI{1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31});
}

struct Nf4Row {
  const unsigned char* codes;
  const float* scales;
  std::int64_t cols;

  DML_INLINE void move(std::int64_t rows) { codes += rows * cols / 2, scales += rows * cols / 64; }

  // Two blocks of 64 columns, the second of which may not exist, as a row of four tiles. 16 bits hold four codes, one
  // for each: columns 1, 5, 9 …, then 0, 4, 8 …, 3, 7, 11 …, and 2, 6, 10 ….
  DML_INLINE void convert(std::int64_t col, char* to) const {
    const bool both = cols - col >= kFewCols;
    const float* scale = scales + col / 64;
    auto scaled = [](float x) __attribute__((always_inline)) {
      return reinterpret_cast<__m512>(load(kNf4Codes.data()) * x);
    };
    const auto table = reinterpret_cast<VU16>(_mm512_cvtne2ps_pbh(scaled(both ? scale[1] : 0), scaled(scale[0])));
    const auto four = reinterpret_cast<VU16>(_mm512_maskz_loadu_epi32(both ? 0xffff : 0xff, codes + col / 2));
    VU16 second{};
    for (int i = 16; i < 32; ++i) second[i] = 16;
#pragma GCC unroll 4
    for (int step = 0; step < kFewSteps; ++step)
      store(reinterpret_cast<float*>(to + step * kPartBytes),
            reinterpret_cast<V>(look_up(table, ((four >> (4 * step)) & 15) | second)));
  }

  // 128 columns in that order; of each 32, every second one is in the first vector.
  DML_INLINE static void order(V (&x)[kFewCols / W]) {
    auto every_second = [&](int odd, int even) __attribute__((always_inline)) {  // four vectors from these on
      V to[8];
      for (int i = 0; i < 4; ++i) {
        to[odd + i] = odd_ones(x[2 * i], x[2 * i + 1]);
        to[even + i] = even_ones(x[2 * i], x[2 * i + 1]);
      }
      for (int i = 0; i < 8; ++i) x[i] = to[i];
    };
    every_second(0, 4);  // 1, 3, 5 …; 0, 2, 4 …
    every_second(4, 0);  // 1, 5 …; 0, 4 …; 3, 7 …; 2, 6 …
    for (int i = 0; i < 8; i += 2) {
      const V both[] = {x[i], x[i + 1]};
      x[i] = even_ones(both[0], both[1]);
      x[i + 1] = odd_ones(both[0], both[1]);
    }
  }
};

template <int M>
void pack_few(const float* x, std::int64_t m, std::int64_t ldx, std::int64_t cols, char* to) {
  using Tiles = FewTiles<M>;
  for (std::int64_t col = 0; col < cols; col += kFewCols) {
    V part[kFewSteps][3][M] = {};
    for (std::int64_t r = 0; r < m; ++r) {
      V v[kFewCols / W];
      for (int i = 0; i < kFewCols / W; ++i) v[i] = load_some(x + r * ldx + col + i * W, cols - col - i * W);
      Nf4Row::order(v);
      for (int step = 0; step < kFewSteps; ++step) {
        const ThreeParts p = parts_of(v[2 * step], v[2 * step + 1]);
        for (int i = 0; i < 3; ++i) part[step][i][r] = reinterpret_cast<V>(p.part[i]);
      }
    }
    for (auto& step : part) {
      auto lay = [&](int first, int last, std::size_t bytes) {
        V pair[W] = {};
        for (int i = first; i < last; ++i)
          for (int r = 0; r < M; ++r) pair[(i - first) * M + r] = step[i][r];
        turn(pair);
        for (V& p : pair) __builtin_memcpy(to, &p, bytes), to += bytes;
      };
      lay(0, Tiles::kTwo ? 2 : 3, Tiles::kFirst);
      if constexpr (Tiles::kTwo) lay(2, 3, Tiles::kSecond);
    }
  }
}

// Of 32 rows of weights: columns as in the tiles of x.
template <int M>
struct FewSums {
  static constexpr int kFirst = FewTiles<M>::kFirst / 4;
  alignas(64) float first[kFewRows][kFirst], second[kFewRows][M];
  DML_INLINE float get(std::int64_t n, std::int64_t r) const {
    return first[n][r] + (first[n][M + r] + (FewTiles<M>::kTwo ? second[n][r] : first[n][kFirst - M + r]));
  }
};

template <int M>
void few_sums(const Nf4Row& first, std::int64_t rows, const char* x, const char* next, FewSums<M>& sums) {
  using Tiles = FewTiles<M>;
  alignas(64) char buffer[2][kFewSteps * kPartBytes];
  // Rows [r, r + some) of columns [col, col + 128). What is missing of 32 rows is filled with the last one.
  Nf4Row row = first;
  auto convert = [&](std::int64_t col, std::int64_t r, std::int64_t some) __attribute__((always_inline)) {
    for (std::int64_t end = r + some; r < end; ++r) {
      row.convert(col, buffer[col / kFewCols % 2] + r * 64);
      if (r + 1 < rows) row.move(1);
    }
  };
  memory_is_used();
  _tile_zero(0);
  _tile_zero(2);
  if constexpr (Tiles::kTwo) {
    _tile_zero(1);
    _tile_zero(3);
  }
  convert(0, 0, kFewRows);
  for (std::int64_t col = 0; col < first.cols; col += kFewCols) {
    const char* tiles = buffer[col / kFewCols % 2];
    row = first;
    for (int step = 0; step < kFewSteps; ++step, tiles += kPartBytes, x += Tiles::kBytes) {
      if (next)
        for (int i = 0; i < kPieceLines / kFewSteps; ++i, next += 64) __builtin_prefetch(next, 0, 2);
      memory_is_used();
      _tile_loadd(4, tiles, 64);
      _tile_loadd(5, tiles + kTileBytes, 64);
      _tile_loadd(6, x, Tiles::kFirst);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (Tiles::kTwo) {
        _tile_loadd(7, x + Tiles::kSecondAt, Tiles::kSecond);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(3, 5, 7);
      }
      if (col + kFewCols < first.cols) convert(col + kFewCols, step * kFewRows / kFewSteps, kFewRows / kFewSteps);
    }
  }
  memory_is_used();
  _tile_stored(0, sums.first[0], Tiles::kFirst);
  _tile_stored(2, sums.first[kTile], Tiles::kFirst);
  if constexpr (Tiles::kTwo) {
    _tile_stored(1, sums.second[0], Tiles::kSecond);
    _tile_stored(3, sums.second[kTile], Tiles::kSecond);
  }
  memory_is_used();
}

// What a product reads first, while x is packed.
DML_INLINE void prefetch_bytes(const void* p, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(static_cast<const char*>(p) + i, 0, 2);
}

template <int M>
void few_rows_of_nf4(Nf4Row w, std::int64_t count, std::int64_t m, const float* x, std::int64_t ldx, float* c,
                     std::int64_t ldc, bool add, float* room) {
  const std::int64_t piece = kFewRows * w.cols / 2;  // bytes of 32 rows
  auto* codes = reinterpret_cast<const char*>(w.codes);
  if (count >= kFewRows) prefetch_bytes(codes, piece);
  auto* packed = reinterpret_cast<char*>(room);
  pack_few<M>(x, m, ldx, w.cols, packed);
  _tile_loadconfig(&FewTiles<M>::kShapes);
  for (; count > 0; count -= kFewRows, c += kFewRows, codes += piece, w.move(kFewRows)) {
    const std::int64_t rows = count < kFewRows ? count : kFewRows;
    FewSums<M> sums;
    few_sums<M>(w, rows, packed, count >= 2 * kFewRows ? codes + piece : nullptr, sums);
    for (std::int64_t r = 0; r < m; ++r)
      for (std::int64_t n = 0; n < rows; ++n) {
        float& to = c[r * ldc + n];
        to = add ? to + sums.get(n, r) : sums.get(n, r);
      }
  }
  _tile_release();
}
