// The register block of the large products on AMX tiles, in float32 precision: a float32 is the sum of three bf16, x =
// x₁ + x₂ + x₃ with |x₂| ≤ 2⁻⁹|x| and |x₃| ≤ 2⁻¹⁸|x|, so six products of parts give x · y but for a relative 2⁻²⁶ (the
// decomposition of Henry, Tang and Heinecke, 2019). Products of bf16 are exact in float32, where the tiles add them up.
//
// A panel of 32 rows lies in blocks of 32 steps of the depth: x₁ of both tiles, x₂, x₃. Values that are bf16 to begin
// with have x₁ alone, and take three products. A tile multiplies pairs of steps of a block. A tile is 16 rows of 16
// pairs; of the second factor 16 pairs of 16 columns each.

constexpr int kTile = 16, kBlockDepth = 32;
constexpr std::int64_t kMr = 2 * kTile, kNr = 2 * kTile;
constexpr std::int64_t kLinesAtOnce = 4;  // prefetched in a block of the depth
constexpr std::int64_t kTileBytes = 1024, kPartBytes = 2 * kTileBytes, kBlockBytes = 3 * kPartBytes;
// Where the precision of bf16 is asked for, all values have one part: themselves, rounded. `Parts` is 3 or 1 below.

// The steps of pair i, first and first + kApart. In three parts steps i and 16 + i, so that two vectors make pairs
// without changing places; in one part neighbors, as rounding two vectors puts them side by side.
template <int Parts>
constexpr std::int64_t kApart = Parts == 1 ? 1 : kTile;
template <int Parts>
DML_INLINE constexpr std::int64_t first_step(std::int64_t i) {
  return Parts == 1 ? 2 * i : i;
}

// Tiles 4 and 5 hold the first factor; 6 and 7 the second one, 0 and 2 sums with tile 6, 1 and 3 sums with tile 7.
struct TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16];
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  constexpr TileShapes(std::uint16_t six, std::uint16_t seven)
      : row_bytes{six, seven, six, seven, 64, 64, six, seven} {}
};
constexpr TileShapes kShapes(64, 64);

// The compiler does not know that tile instructions read and write memory: nothing may move across this.
DML_INLINE void memory_is_used() { __asm__ volatile("" ::: "memory"); }

// Sums of Down × Across tiles, in tiles 0 to 3; small terms first. `between` is called before every Down × Across
// products: with 0 before those that begin a block of the depth.
template <int Down, int Across, class Between, int Parts = 3>
void tile_block(std::int64_t blocks, std::int64_t bf16_blocks, const char* a, const char* b, float* c, std::int64_t ldc,
                bool add, Between between) {
  const std::int64_t row = ldc * static_cast<std::int64_t>(sizeof(float));
  memory_is_used();
  if (add) {
    _tile_loadd(0, c, row);
    if constexpr (Across > 1) _tile_loadd(1, c + kTile, row);
    if constexpr (Down > 1) _tile_loadd(2, c + kTile * ldc, row);
    if constexpr (Down > 1 && Across > 1) _tile_loadd(3, c + kTile * ldc + kTile, row);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  auto load_a = [&](int part) __attribute__((always_inline)) {
    _tile_loadd(4, a + part * kPartBytes, 64);
    if constexpr (Down > 1) _tile_loadd(5, a + part * kPartBytes + kTileBytes, 64);
  };
  auto load_b = [&](int part) __attribute__((always_inline)) {
    _tile_loadd(6, b + part * kPartBytes, 64);
    if constexpr (Across > 1) _tile_loadd(7, b + part * kPartBytes + kTileBytes, 64);
  };
  auto multiply = [&]() __attribute__((always_inline)) {
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (Across > 1) _tile_dpbf16ps(1, 4, 7);
    if constexpr (Down > 1) _tile_dpbf16ps(2, 5, 6);
    if constexpr (Down > 1 && Across > 1) _tile_dpbf16ps(3, 5, 7);
  };
  if constexpr (Parts == 1) bf16_blocks = blocks;
  for (std::int64_t i = 0; Parts == 1 && i < blocks; ++i, a += kPartBytes, b += kPartBytes)
    between(0), load_a(0), load_b(0), multiply();
  for (std::int64_t i = 0; Parts == 3 && i < bf16_blocks; ++i, a += kBlockBytes, b += kPartBytes) {
    between(0), load_a(2), load_b(0), multiply();
    between(1), load_a(1), multiply();
    between(2), load_a(0), multiply();
  }
  for (std::int64_t i = bf16_blocks; i < blocks; ++i, a += kBlockBytes, b += kBlockBytes) {
    between(0), load_a(2), load_b(0), multiply();
    between(1), load_a(1), multiply();
    between(2), load_b(1), multiply();
    between(3), load_a(0), multiply();
    between(4), load_b(2), multiply();
    between(5), load_b(0), multiply();
  }
  _tile_stored(0, c, row);
  if constexpr (Across > 1) _tile_stored(1, c + kTile, row);
  if constexpr (Down > 1) _tile_stored(2, c + kTile * ldc, row);
  if constexpr (Down > 1 && Across > 1) _tile_stored(3, c + kTile * ldc + kTile, row);
  memory_is_used();
}

// `next`: the next block of the result, prefetched meanwhile. Products in one part prefetch it only if they add to it,
// and nothing else: prefetches occupy the fill buffers that tile loads need (measured: bench/LOG.md).
template <int Parts>
DML_INLINE void tile_rows(std::int64_t rows, std::int64_t cols, std::int64_t blocks, std::int64_t bf16_blocks,
                          const char* a, const char* b, float* c, std::int64_t ldc, bool add, const float* next,
                          Fetch& fetch) {
  fetch.begin_block();
  const std::int64_t rows_each = (kMr + blocks - 1) / blocks;
  std::int64_t asked = 0;
  auto ask = [&](int step) __attribute__((always_inline)) {
    if (step > 0 || (Parts == 1 && !add)) return;
    for (std::int64_t end = asked + rows_each < kMr ? asked + rows_each : kMr; asked < end; ++asked) {
      __builtin_prefetch(next + asked * ldc, 1);
      __builtin_prefetch(next + asked * ldc + kTile, 1);
    }
    if (Parts == 3) fetch.some();
  };
  if (rows > kTile && cols > kTile)
    tile_block<2, 2, decltype(ask)&, Parts>(blocks, bf16_blocks, a, b, c, ldc, add, ask);
  else if (rows > kTile) tile_block<2, 1, decltype(ask)&, Parts>(blocks, bf16_blocks, a, b, c, ldc, add, ask);
  else if (cols > kTile) tile_block<1, 2, decltype(ask)&, Parts>(blocks, bf16_blocks, a, b, c, ldc, add, ask);
  else tile_block<1, 1, decltype(ask)&, Parts>(blocks, bf16_blocks, a, b, c, ldc, add, ask);
}

template <int Parts>
void packed_gemm(std::int64_t m, std::int64_t n, std::int64_t depth, std::int64_t bf16_depth, const float* a,
                 const float* b, float* c, std::int64_t ldc, bool add, PrefetchRange ahead) {
  _tile_loadconfig(&kShapes);
  const std::int64_t blocks = depth / kBlockDepth, bf16_blocks = bf16_depth / kBlockDepth;
  const std::int64_t a_bytes = blocks * Parts * kPartBytes, b_bytes = a_bytes - bf16_blocks * (Parts - 1) * kPartBytes;
  Fetch fetch(ahead, (m + kMr - 1) / kMr * ((n + kNr - 1) / kNr), kLinesAtOnce);
  for (std::int64_t i = 0; i < m; i += kMr)
    for (std::int64_t j = 0; j < n; j += kNr) {
      const std::int64_t rows = m - i < kMr ? m - i : kMr, cols = n - j < kNr ? n - j : kNr;
      const char* ap = reinterpret_cast<const char*>(a) + i / kMr * a_bytes;
      const char* bp = reinterpret_cast<const char*>(b) + j / kNr * b_bytes;
      float* to = c + i * ldc + j;
      const float* next = j + kNr < n ? to + kNr : c + (i + kMr) * ldc;
      if (rows % kTile == 0 && cols % kTile == 0) {
        tile_rows<Parts>(rows, cols, blocks, bf16_blocks, ap, bp, to, ldc, add, next, fetch);
        continue;
      }
      alignas(64) float edge[kMr * kNr];
      const auto width = static_cast<std::size_t>(cols) * sizeof(float);
      for (std::int64_t r = 0; r < rows && add; ++r) __builtin_memcpy(edge + r * kNr, to + r * ldc, width);
      tile_rows<Parts>(rows, cols, blocks, bf16_blocks, ap, bp, edge, kNr, add, next, fetch);
      for (std::int64_t r = 0; r < rows; ++r) __builtin_memcpy(to + r * ldc, edge + r * kNr, width);
    }
  _tile_release();
}

// The three parts of 32 values, each as 16 pairs of bf16: of `first` and of `second`. Rounded to eight digits, ties
// away from zero, a value leaves a rest that float32 holds exactly, and the rest of that rest has no more than eight
// digits. So it is when digits are cut off instead, which is quicker; where one of two factors is cut, products are off
// by 2⁻²⁵.
struct ThreeParts {
  VU16 part[3];
};
template <bool Cut = false>
DML_INLINE ThreeParts parts_of(V first, V second) {
  ThreeParts out;
#pragma GCC unroll 3
  for (int p = 0; p < 3; ++p) {
    auto a = reinterpret_cast<Words>(first), b = reinterpret_cast<Words>(second);
    if (p < 2) {
      a = (Cut ? a : a + 0x8000) & 0xffff0000;
      b = (Cut ? b : b + 0x8000) & 0xffff0000;
      first -= reinterpret_cast<V>(a);
      second -= reinterpret_cast<V>(b);
    }
    out.part[p] = reinterpret_cast<VU16>((a >> 16) | (b & 0xffff0000));
  }
  return out;
}

DML_INLINE void store_parts(char* to, std::int64_t row, const ThreeParts& x) {
#pragma GCC unroll 3
  for (int p = 0; p < 3; ++p)
    store(reinterpret_cast<float*>(to + p * kPartBytes + row * 64), reinterpret_cast<V>(x.part[p]));
}

// Where rows or columns of a factor lie: `count` of them from here on, and `depth` steps.
template <class T>
struct Source {
  const T* from;
  std::int64_t ld, count, depth;

  DML_INLINE bool whole() const { return count >= kTile && depth >= kBlockDepth; }
};

// Vector i of those that make a tile in three parts: row i, or step i of all rows; `late`: of the block's second half.
template <bool Transposed, bool Whole>
DML_INLINE V vector_of(const Source<float>& s, int i, int late) {
  const float* at = Transposed ? s.from + (i + late * kTile) * s.ld : s.from + i * s.ld + late * W;
  if (Whole) return load(at);
  const std::int64_t some = Transposed ? s.count : s.depth - late * W;
  return (Transposed ? i + late * kTile < s.depth : i < s.count) ? load_some(at, some) : V{};
}
// Pairs of values that have one part: of row i, or of two steps of all rows.
template <int Parts, bool Transposed, bool Whole, class T>
DML_INLINE V pairs_of(const Source<T>& s, int i) {
  if constexpr (Transposed) {
    const std::int64_t first = first_step<Parts>(i), second = first + kApart<Parts>;
    if (!Whole && first >= s.depth) return V{};
    return pairs_of_columns(s.from + first * s.ld, Whole || second < s.depth ? s.from + second * s.ld : nullptr,
                            Whole ? kTile : s.count);
  } else {
    if (!Whole && i >= s.count) return V{};
    const V neighbors = pairs_of_row(s.from + i * s.ld, Whole ? kBlockDepth : s.depth);
    return Parts == 1 ? neighbors : reinterpret_cast<V>(__builtin_shuffle(reinterpret_cast<VU16>(neighbors), kPairs));
  }
}

// A tile of 16 rows of 16 pairs, or of 16 pairs of 16 columns: which of the two lies in the source's vectors need not
// be transposed.
template <int Parts, bool Transposed, bool Turn, bool Whole, class T>
void pack_tile(const Source<T>& from, char* tile) {
  constexpr bool kThree = Parts == 3 && std::is_same_v<T, float>;
  V x[W], late[W];
#pragma GCC unroll 16
  for (int i = 0; i < kTile; ++i) {
    if constexpr (kThree) {
      x[i] = vector_of<Transposed, Whole>(from, i, 0);
      late[i] = vector_of<Transposed, Whole>(from, i, 1);
    } else {
      x[i] = pairs_of<Parts, Transposed, Whole>(from, i);
    }
  }
  if constexpr (Turn) turn(x);
  if constexpr (Turn && kThree) turn(late);
#pragma GCC unroll 16
  for (int i = 0; i < kTile; ++i) {
    if constexpr (kThree) store_parts(tile, i, parts_of(x[i], late[i]));
    else store(reinterpret_cast<float*>(tile + i * 64), x[i]);
  }
}

template <int Parts, bool Transposed, bool Turn, class T>
void pack_blocks(std::int64_t count, std::int64_t depth, const T* from, std::int64_t ld, float* packed) {
  constexpr std::int64_t kPartsOfValue = std::is_same_v<T, float> ? Parts : 1;
  char* tile = reinterpret_cast<char*>(packed);
  for (std::int64_t k = 0; k < depth; k += kBlockDepth, tile += (kPartsOfValue - 1) * kPartBytes)
    for (std::int64_t r = 0; r < kMr; r += kTile, tile += kTileBytes) {
      const Source<T> source{from + (Transposed ? k * ld + r : r * ld + k), ld, count - r, depth - k};
      if (source.whole()) pack_tile<Parts, Transposed, Turn, true>(source, tile);
      else pack_tile<Parts, Transposed, Turn, false>(source, tile);
    }
}

// Tiles of rows.
template <int Parts>
void pack_a(bool transposed, std::int64_t count, std::int64_t depth, const float* from, std::int64_t ld,
            float* packed) {
  if (transposed) pack_blocks<Parts, true, true>(count, depth, from, ld, packed);
  else pack_blocks<Parts, false, false>(count, depth, from, ld, packed);
}

// Tiles of pairs of steps.
template <int Parts, class T = float>
void pack_b(bool transposed, std::int64_t count, std::int64_t depth, const T* from, std::int64_t ld, float* packed) {
  if (transposed) pack_blocks<Parts, true, false>(count, depth, from, ld, packed);
  else pack_blocks<Parts, false, true>(count, depth, from, ld, packed);
}
